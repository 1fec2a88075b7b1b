"""The timeline as one self-contained page: everything, opened on the typical window."""

from pathlib import Path

import plotly.graph_objects

from harmony_cli.report.intervals import Interval
from harmony_cli.report.timeline import PHASE_COLOURS, Row, Segment, Timeline, visible

MOST_SEGMENTS = 10_000
"""A browser draws this many bars at ease; of a longer run the middle is kept."""
ROW_PIXELS = 34
WAIT_STRIPES = "#B0B0B0"


def draw_page(timeline: Timeline, title: str, path: Path) -> None:
    """Write the page. Its title says so where it does not hold the whole run."""
    kept = _kept(timeline)
    whole = kept == (timeline.origin_ns, timeline.end_ns)
    figure = plotly.graph_objects.Figure()
    for kind, colour in PHASE_COLOURS.items():
        _add_bars(
            figure,
            timeline,
            kind,
            colour,
            [
                (row, segment)
                for row in timeline.rows
                if not row.by_job
                for segment in visible(row.segments, kept)
                if segment.kind == kind
            ],
        )
    for job in timeline.jobs:
        _add_bars(
            figure,
            timeline,
            job,
            timeline.job_colour(job),
            [
                (row, segment)
                for row in timeline.rows
                if row.by_job
                for segment in visible(row.segments, kept)
                if segment.job == job
            ],
        )
    if not whole:
        seconds = (kept[1] - kept[0]) / 1e9
        title += f" (the middle {seconds:.0f} s of {timeline.seconds(timeline.end_ns):.0f} s)"
    figure.update_layout(
        title=title,
        barmode="overlay",
        bargap=0.15,
        template="plotly_white",
        height=ROW_PIXELS * len(timeline.rows) + 260,
        xaxis={
            "title": "seconds since the first turn",
            "range": [timeline.seconds(at_ns) for at_ns in timeline.window],
            "rangeslider": {"visible": True, "thickness": 0.12},
        },
        yaxis={
            "categoryorder": "array",
            "categoryarray": [_label(row) for row in reversed(timeline.rows)],
        },
        legend={"orientation": "h", "y": 1.08},
    )
    figure.write_html(path, include_plotlyjs=True, full_html=True)


def _kept(timeline: Timeline) -> Interval:
    """The whole run, or as much around its middle as MOST_SEGMENTS allow."""
    count = sum(len(row.segments) for row in timeline.rows)
    low, high = timeline.origin_ns, timeline.end_ns
    if count <= MOST_SEGMENTS:
        return low, high
    length = round((high - low) * MOST_SEGMENTS / count)
    middle = sum(timeline.window) // 2
    start = min(max(low, middle - length // 2), high - length)
    return start, start + length


def _add_bars(
    figure: plotly.graph_objects.Figure,
    timeline: Timeline,
    name: str,
    colour: str,
    bars: list[tuple[Row, Segment]],
) -> None:
    if not bars:
        return
    figure.add_bar(
        name=name,
        orientation="h",
        y=[_label(row) for row, _ in bars],
        base=[timeline.seconds(segment.start_ns) for _, segment in bars],
        x=[(segment.end_ns - segment.start_ns) / 1e9 for _, segment in bars],
        customdata=[
            [
                segment.job,
                segment.kind,
                segment.turn.iteration,
                (segment.end_ns - segment.start_ns) / 1e6,
                segment.turn.bytes / 1e6,
            ]
            for _, segment in bars
        ],
        hovertemplate=(
            "%{customdata[0]} %{customdata[1]}, iteration %{customdata[2]}<br>"
            "%{customdata[3]:.2f} ms, %{customdata[4]:.1f} MB<extra></extra>"
        ),
        marker={
            "color": colour,
            "line": {"width": 0},
            "pattern": {"shape": "/" if name == "Wait" else "", "fgcolor": WAIT_STRIPES},
        },
    )


def _label(row: Row) -> str:
    return f"{row.owner} {row.name}"
