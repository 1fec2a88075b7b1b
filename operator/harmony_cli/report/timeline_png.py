"""The timeline as a picture: a window of typical cycles, and for a comparison the totals."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from harmony_cli.report.intervals import Interval
from harmony_cli.report.summary import ComparisonSummary, RunSummary
from harmony_cli.report.timeline import (
    MACHINE,
    NETWORK,
    PHASE_COLOURS,
    WINDOW_CYCLES,
    Kind,
    Row,
    Segment,
    Timeline,
    lanes,
    visible,
)
from harmony_cli.run_record import Mode

WIDTH_INCHES = 11.0
ROW_INCHES = 0.31
MARGIN_INCHES = 0.55
LEFT, RIGHT = 0.16, 0.91
BAR_HEIGHT = 0.84
GAP_BETWEEN_OWNERS = 0.5
TEXT, QUIET, TRACK = "#222222", "#666666", "#F7F7F7"
WAIT_HATCH, WAIT_EDGE = "/////", "#B0B0B0"
BACKGROUND_ALPHA = 0.45
MODE_TITLES: dict[Mode, str] = {
    "dedicated": "One after the other",
    "naive": "Left to fight",
    "shared": "Harmony",
}


def draw_run(timeline: Timeline, summary: RunSummary, path: Path) -> None:
    """Write the picture of one run."""
    owners = len({row.owner for row in timeline.rows})
    figure, (axes,) = _panels([len(timeline.rows) + GAP_BETWEEN_OWNERS * owners])
    kinds = _draw_rows(axes, timeline, timeline.rows, timeline.window, summary)
    low, high = timeline.window
    words = (
        f"{WINDOW_CYCLES} cycles from the middle: {(high - low) / 1e9:.1f} s of "
        f"{timeline.seconds(timeline.end_ns):.0f} s"
    )
    _title(axes, MODE_TITLES[summary.mode], words)
    axes.set_xlabel("seconds since the first turn", loc="right", color=QUIET, fontsize=9)
    figure.legend(
        handles=[_swatch(kind) for kind in PHASE_COLOURS if kind in kinds],
        loc="lower left",
        bbox_to_anchor=(LEFT - 0.008, 0),
        ncols=len(PHASE_COLOURS),
        frameon=False,
        fontsize=9,
        labelcolor=QUIET,
    )
    _save(figure, path)


def draw_comparison(
    timelines: Mapping[Mode, Timeline], summary: ComparisonSummary, path: Path
) -> None:
    """Write the picture of a comparison: the machine in each mode, on one scale, and totals."""
    runs = summary.runs
    rows = [
        [row for row in timelines[run.mode].rows if row.by_job and row.segments] for run in runs
    ]
    length = min(timeline.window[1] - timeline.window[0] for timeline in timelines.values())
    figure, (*panels, totals) = _panels([*map(len, rows), len(runs)])
    words = f"{length / 1e9:.1f} s from the middle of each run"
    for axes, run, machine in zip(panels, runs, rows, strict=True):
        timeline = timelines[run.mode]
        start = (sum(timeline.window) - length) // 2
        _draw_rows(axes, timeline, machine, (start, start + length), run)
        axes.set_xticks([])
        _title(axes, MODE_TITLES[run.mode], words if axes is panels[0] else "")
    _draw_totals(totals, timelines, runs, summary)
    _save(figure, path)


def _panels(heights: Sequence[float]) -> tuple[Figure, list[Axes]]:
    """Stack axes whose heights are given in rows."""
    inches = [ROW_INCHES * height for height in heights]
    total = sum(inches) + MARGIN_INCHES * (len(heights) + 1)
    figure = Figure(figsize=(WIDTH_INCHES, total), dpi=150)
    axes = []
    top = total - MARGIN_INCHES
    for height in inches:
        box = (LEFT, (top - height) / total, RIGHT - LEFT, height / total)
        axes.append(figure.add_axes(box))
        top -= height + MARGIN_INCHES
    return figure, axes


def _draw_rows(
    axes: Axes, timeline: Timeline, rows: Sequence[Row], window: Interval, summary: RunSummary
) -> set[Kind]:
    """Draw one line per row, from the top; return the kinds of segments that are seen."""
    busy = {device.name: device.compute_utilisation for device in summary.devices}
    busy[NETWORK] = summary.network.utilisation
    kinds: set[Kind] = set()
    positions: list[float] = []
    y = 0.0
    for index, row in enumerate(rows):
        first_of_owner = not index or rows[index - 1].owner != row.owner
        y += GAP_BETWEEN_OWNERS if index and first_of_owner else 0
        segments = visible(row.segments, window)
        _draw_row(axes, timeline, row, segments, y)
        if row.owner == MACHINE:
            _note(axes, (1, y), (8, 0), f"{busy[row.name] * 100:.0f} % busy", ha="left")
        else:
            kinds |= {segment.kind for segment in segments}
            if first_of_owner:
                colour = timeline.job_colour(row.segments[0].job) if row.segments else QUIET
                _note(axes, (0, y + 0.5), (-64, 0), row.owner, color=colour, fontweight="bold")
        positions.append(y)
        y += 1
    axes.set_ylim(y - 0.5, -0.5)
    axes.set_xlim(*map(timeline.seconds, window))
    axes.set_yticks(positions, [row.name for row in rows])
    axes.tick_params(length=0, colors=QUIET, labelsize=9)
    axes.spines[:].set_visible(False)
    return kinds


def _draw_row(
    axes: Axes, timeline: Timeline, row: Row, segments: Sequence[Segment], y: float
) -> None:
    axes.axhspan(y - BAR_HEIGHT / 2, y + BAR_HEIGHT / 2, color=TRACK, zorder=0)
    lane_of = lanes(timeline, row, segments)
    height = BAR_HEIGHT / (max(lane_of, default=0) + 1)
    for waiting in (True, False):
        for background in (True, False):
            chosen = [
                (segment, lane)
                for segment, lane in zip(segments, lane_of, strict=True)
                if (segment.kind == "Wait") == waiting
                and (row.by_job and segment.in_background) == background
            ]
            axes.bar(
                x=[timeline.seconds(segment.start_ns) for segment, _ in chosen],
                width=[(segment.end_ns - segment.start_ns) / 1e9 for segment, _ in chosen],
                bottom=[y - BAR_HEIGHT / 2 + lane * height for _, lane in chosen],
                height=height,
                align="edge",
                color=[timeline.colour(row, segment) for segment, _ in chosen],
                alpha=BACKGROUND_ALPHA if background else 1,
                edgecolor=WAIT_EDGE if waiting else "white",
                linewidth=0 if waiting else 0.4,
                hatch=WAIT_HATCH if waiting else None,
            )


def _draw_totals(
    axes: Axes,
    timelines: Mapping[Mode, Timeline],
    runs: Sequence[RunSummary],
    summary: ComparisonSummary,
) -> None:
    """One line per mode: when each job trained, without the gaps between dedicated runs."""
    longest = 0.0
    for y, run in enumerate(runs):
        timeline = timelines[run.mode]
        in_turn = run.mode == "dedicated"
        height = BAR_HEIGHT / (1 if in_turn else max(1, len(run.jobs)))
        end = 0.0
        for place, job in enumerate(run.jobs):
            start = end if in_turn else job.start_seconds
            axes.barh(
                y - BAR_HEIGHT / 2 + (0 if in_turn else place * height),
                job.training_seconds,
                height,
                left=start,
                align="edge",
                color=timeline.job_colour(job.name),
                edgecolor="white",
                linewidth=0.8,
            )
            end = max(end, start + job.training_seconds)
        longest = max(longest, end)
        words = f"{end:.1f} s"
        if run.mode == "shared" and summary.speedup_over_dedicated:
            words += f"  ({summary.speedup_over_dedicated:.2f}x)"
        axes.annotate(words, (end, y), (6, 0), textcoords="offset points", va="center", color=TEXT)
    axes.set_ylim(len(runs) - 0.5, -0.5)
    axes.set_xlim(0, longest * 1.12 if longest else 1)
    axes.xaxis.set_major_formatter("{x:g} s")
    axes.set_yticks(range(len(runs)), [MODE_TITLES[run.mode] for run in runs])
    axes.tick_params(length=0, colors=QUIET, labelsize=9)
    axes.spines[:].set_visible(False)
    _title(axes, "Training time", "")
    axes.legend(
        handles=[
            Patch(color=timelines[runs[0].mode].job_colour(job.name), label=job.name)
            for job in runs[0].jobs
        ],
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(runs[0].jobs),
        frameon=False,
        fontsize=9,
        labelcolor=QUIET,
    )


def _title(axes: Axes, title: str, words: str) -> None:
    _note(axes, (0, 1), (0, 14), title, "axes fraction", ha="left", fontweight="bold", fontsize=11)
    _note(axes, (1, 1), (0, 14), words, "axes fraction", color=QUIET)


def _note(
    axes: Axes,
    at: tuple[float, float],
    offset: tuple[float, float],
    text: str,
    y_coordinates: str = "data",
    **style: Any,
) -> None:
    """Write beside the axes; `at` is (fraction of the width, y), the offset is in points."""
    defaults: dict[str, Any] = {"ha": "right", "va": "center", "color": TEXT, "fontsize": 9}
    axes.annotate(
        text,
        at,
        offset,
        xycoords=("axes fraction", y_coordinates),
        textcoords="offset points",
        **(defaults | style),
    )


def _swatch(kind: Kind) -> Patch:
    patch = Patch(facecolor=PHASE_COLOURS[kind], label=kind)
    if kind == "Wait":
        patch.set(hatch=WAIT_HATCH, edgecolor=WAIT_EDGE, linewidth=0)
    return patch


def _save(figure: Figure, path: Path) -> None:
    FigureCanvasAgg(figure)
    figure.savefig(path, format="png", facecolor="white", bbox_inches="tight", pad_inches=0.15)
