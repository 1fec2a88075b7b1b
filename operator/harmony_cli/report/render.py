"""Everything that a folder can tell, rendered again: the one entry of reports.

Used by the runner when a run has ended, and by `harmony report` at any time later.
"""

from dataclasses import dataclass
from pathlib import Path

from rich.console import RenderableType

from harmony_cli.report.chrome_trace import write_trace
from harmony_cli.report.comparison import compare
from harmony_cli.report.figures import summarise
from harmony_cli.report.run_folder import ReportError, Run, comparison_folders, read_run
from harmony_cli.report.summary import ComparisonSummary, RunSummary, write_summary
from harmony_cli.report.table import comparison_table, run_table
from harmony_cli.report.timeline import Timeline, build_timeline
from harmony_cli.report.timeline_html import draw_page
from harmony_cli.report.timeline_png import draw_comparison, draw_run


@dataclass(frozen=True)
class Report:
    """What was made of a folder."""

    summary: RunSummary | ComparisonSummary
    table: RenderableType
    files: tuple[Path, ...]
    """What was written, the most telling first."""


def render(folder: Path) -> Report:
    """Write summary, pictures and trace of a run, or of every run of a comparison and it.

    Raises ReportError when the folder holds neither.
    """
    folders = comparison_folders(folder)
    if not folders:
        run = read_run(folder)
        if not _has_turns(run):
            jobs = folder / "jobs"
            raise ReportError(f"{folder} recorded no turn of any job: its logs are in {jobs}")
        return _render_run(run)[0]
    runs = {mode: run for mode, path in folders.items() if _has_turns(run := read_run(path))}
    if not runs:
        raise ReportError(f"no run in {folder} recorded a turn of any job: their logs tell why")
    timelines = {mode: _render_run(run)[1] for mode, run in runs.items()}
    summary = compare(runs)
    picture = folder / "comparison.png"
    draw_comparison(timelines, summary, picture)
    files = (picture, write_summary(summary, folder))
    return Report(summary=summary, table=comparison_table(summary), files=files)


def _has_turns(run: Run) -> bool:
    return any(job.turns for job in run.jobs)


def _render_run(run: Run) -> tuple[Report, Timeline]:
    summary, timeline = summarise(run), build_timeline(run)
    picture, page, trace = (
        run.folder / name for name in ("timeline.png", "timeline.html", "trace.json")
    )
    draw_run(timeline, summary, picture)
    draw_page(timeline, f"{summary.name}, {summary.mode}", page)
    write_trace(run, timeline, trace)
    files = (picture, page, trace, write_summary(summary, run.folder))
    return Report(summary=summary, table=run_table(summary), files=files), timeline
