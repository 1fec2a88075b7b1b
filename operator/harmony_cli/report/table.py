"""The figures as tables for a terminal."""

from collections.abc import Sequence

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from harmony_cli.report.comparison import main_group
from harmony_cli.report.summary import (
    ComparisonSummary,
    GroupSummary,
    JobSummary,
    RunSummary,
)

UNKNOWN = "-"


def run_table(summary: RunSummary) -> RenderableType:
    """Return the table of one run's jobs, and sentences on its machine, groups and notes."""
    table = _table(
        f"{summary.name}: {summary.mode}, {summary.makespan_seconds:.1f} s of training",
        ["job", "done", "time", "each", "COMP", "NET", "SYNC", "waits", "loss"],
    )
    for job in summary.jobs:
        table.add_row(
            job.name,
            _iterations(job),
            _seconds(job.training_seconds),
            _milliseconds(job.seconds_per_iteration),
            _seconds(job.compute_seconds),
            _seconds(job.transfer_seconds),
            _seconds(job.sync_seconds),
            _share(job.permit_waits.total_seconds, job.training_seconds),
            _losses(job),
        )
    sentences = [*_machine_sentences(summary), *_job_sentences(summary), *summary.notes]
    return Group(table, "", *map(Text, sentences))


def comparison_table(summary: ComparisonSummary) -> RenderableType:
    """Return the tables of a comparison (times, and the machine) and the verdict."""
    return Group(
        _times_table(summary),
        "",
        _machine_table(summary),
        "",
        *map(Text, summary.verdict),
        *(Text(f"{run.mode}: {note}") for run in summary.runs for note in run.notes),
    )


def _times_table(summary: ComparisonSummary) -> Table:
    table = _table(
        "Training time",
        ["job", "alone", "left to fight", "together", "slowdown", "same losses"],
    )
    for job in summary.jobs:
        table.add_row(
            job.name,
            _seconds(job.alone_seconds),
            _seconds(job.naive_seconds),
            _seconds(job.together_seconds),
            UNKNOWN if job.slowdown_percent is None else f"{job.slowdown_percent:+.0f} %",
            _identical(job.losses_identical, job.compared_losses),
        )
    table.add_section()
    table.add_row(
        "all",
        _seconds(summary.dedicated_seconds),
        _seconds(summary.naive_seconds),
        _seconds(summary.together_seconds),
        "",
        _identical(summary.losses_identical, sum(job.compared_losses for job in summary.jobs)),
        style="bold",
    )
    table.add_row(
        "speed-up",
        _factor(summary.speedup_over_dedicated),
        _factor(summary.speedup_over_naive),
    )
    return table


def _machine_table(summary: ComparisonSummary) -> Table:
    table = _table("The machine while jobs ran together", ["", *(run.mode for run in summary.runs)])
    for name in dict.fromkeys(device.name for run in summary.runs for device in run.devices):
        busy = [
            next((d.compute_utilisation for d in run.devices if d.name == name), None)
            for run in summary.runs
        ]
        table.add_row(f"COMP on {name}", *map(_percent, busy))
    table.add_row("NET", *(_percent(run.network.utilisation) for run in summary.runs))
    groups = [main_group(run) for run in summary.runs]
    table.add_row("cycle, predicted", *(_cycle(group, measured=False) for group in groups))
    table.add_row("cycle, measured", *(_cycle(group, measured=True) for group in groups))
    return table


def _machine_sentences(summary: RunSummary) -> list[str]:
    sentences = [
        f"{device.name}: COMP {_percent(device.compute_utilisation)} of the time"
        + (f", with {device.overlaps} overlaps of permits" if device.overlaps else "")
        for device in summary.devices
    ]
    excesses = summary.network.excesses
    sentences.append(
        f"network: NET {_percent(summary.network.utilisation)} of the time"
        + (f", with {excesses} overlaps of permits" if excesses else "")
    )
    sentences += [
        f"{', '.join(group.jobs)} on {', '.join(group.slots)} for {group.window_seconds:.1f} s: "
        f"cycle {_cycle(group, measured=True)} measured, {_cycle(group, measured=False)} predicted"
        for group in summary.groups
        if group.measured_cycle_seconds is not None
    ]
    return sentences


def _job_sentences(summary: RunSummary) -> list[str]:
    sentences = []
    for job in summary.jobs:
        if job.state != "Succeeded":
            sentences.append(f"{job.name}: {job.state}")
        if job.restarts:
            sentences.append(f"{job.name}: {job.restarts} of its processes were replaced")
        if job.revoked_turns:
            sentences.append(f"{job.name}: {job.revoked_turns} turns lost their permit")
        if job.uncoordinated_turns and summary.mode == "shared":
            sentences.append(f"{job.name}: {job.uncoordinated_turns} turns had no permit")
    return sentences


def _table(title: str, columns: Sequence[str]) -> Table:
    """A table whose first column is text and whose others are figures."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD)
    table.padding = (0, 1, 0, 0)
    table.show_edge = False
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index else "left", overflow="fold")
    return table


def _iterations(job: JobSummary) -> str:
    if job.total_iterations in (None, job.iterations):
        return str(job.iterations)
    return f"{job.iterations}/{job.total_iterations}"


def _losses(job: JobSummary) -> str:
    if job.first_loss is None or job.last_loss is None:
        return UNKNOWN
    return f"{job.first_loss:.2g} → {job.last_loss:.2g}"


def _identical(identical: bool | None, count: int) -> str:
    if identical is None:
        return UNKNOWN
    return f"{count} of {count}" if identical else "no"


def _cycle(group: GroupSummary | None, *, measured: bool) -> str:
    if group is None:
        return UNKNOWN
    seconds = group.measured_cycle_seconds if measured else group.predicted_cycle_seconds
    return _milliseconds(seconds)


def _seconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds:.1f} s"


def _milliseconds(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return f"{seconds * 1e3:.0f} ms" if seconds >= 0.1 else f"{seconds * 1e3:.1f} ms"


def _factor(factor: float | None) -> str:
    return UNKNOWN if factor is None else f"{factor:.2f}x"


def _share(part: float, whole: float) -> str:
    return _percent(part / whole if whole else None)


def _percent(part: float | None) -> str:
    return UNKNOWN if part is None else f"{part * 100:.0f} %"
