"""`harmony run`: train the jobs of some manifests on this machine.

The command checks everything that can be checked first, so that a run that starts is a run
that can go on; then it drives one run, or three of the same jobs to compare.
"""

import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markup import escape

from harmony_cli.commands.report import print_report
from harmony_cli.commands.validate import load_or_exit
from harmony_cli.live import JobRow, LiveView
from harmony_cli.local import preflight, run_folder
from harmony_cli.local.job_runtime import JobRuntime
from harmony_cli.local.link import LinkError
from harmony_cli.local.run_folder import RunFolderError, RunJob
from harmony_cli.local.runner import LocalRunner, RunOptions, View
from harmony_cli.local.slots import Machine, find_machine
from harmony_cli.local_view import left_aside
from harmony_cli.report.run_folder import ReportError
from harmony_cli.run_record import EventRecord, Mode, RunRecord
from harmony_planner.snapshot import Network

INTERRUPTED_EXIT_CODE = 130


@dataclass(frozen=True)
class Settings:
    """What all runs of one command have in common."""

    machine: Machine
    network: Network
    link_mbit: int | None

    def options(self, folder: Path, mode: Mode) -> RunOptions:
        """Options of one run."""
        return RunOptions(
            run_folder=folder,
            mode=mode,
            machine=self.machine,
            network=self.network,
            link_mbit=self.link_mbit,
        )


def run(
    manifests: Annotated[
        list[Path] | None,
        typer.Argument(help="YAML files with HarmonyJobs.", metavar="MANIFEST..."),
    ] = None,
    mode: Annotated[
        Mode,
        typer.Option(
            help="shared: planned, with permits; naive: all at once, without; "
            "dedicated: one after the other."
        ),
    ] = "shared",
    compare: Annotated[
        bool, typer.Option("--compare", help="Run all three modes and compare them.")
    ] = False,
    folder: Annotated[
        Path | None,
        typer.Option("--run-folder", help="Where the run is kept; default: runs/<time>."),
    ] = None,
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="CPU slots to make; default: the workers of the widest job."),
    ] = None,
    network: Annotated[
        Network,
        typer.Option(help="FullDuplex: PULL and PUSH do not slow each other on this network."),
    ] = "HalfDuplex",
    link_mbit: Annotated[
        int | None,
        typer.Option(
            min=1, help="Put workers and servers on two sides of a link this fast (needs root)."
        ),
    ] = None,
    resume: Annotated[
        Path | None,
        typer.Option(help="Go on with the jobs of this run folder that have not ended."),
    ] = None,
) -> None:
    """Train the jobs of some manifests on this machine.

    Examples: `harmony run a.yaml b.yaml`, `harmony run a.yaml b.yaml --compare` (one after the
    other, all at once, shared: and a table), `harmony run --resume runs/20300101-120000`.
    """
    console = Console()
    errors = Console(stderr=True)
    if resume is not None:
        if manifests or compare or folder or slots or link_mbit:
            _refuse(errors, "--resume goes on as the earlier run was asked to: give nothing else")
        _resume(console, errors, resume)
    if not manifests:
        _refuse(errors, "name at least one manifest, or a run with --resume")
    loaded = []
    for manifest in load_or_exit(manifests, code=2):
        name = manifest.job.name
        if manifest.job.spec.suspend:
            console.print(f"{name} is not run: its manifest says suspend: true", style="yellow")
            continue
        loaded.append(manifest)
        if fields := left_aside(manifest.job):
            console.print(f"{name}: a local run leaves aside {', '.join(fields)}", style="dim")
    if not loaded:
        raise typer.Exit(0)
    widest = max(manifest.job.spec.workers.least for manifest in loaded)
    want_gpus = any(manifest.job.spec.workers.gpus_per_worker for manifest in loaded)
    settings = Settings(find_machine(slots or widest, want_gpus=want_gpus), network, link_mbit)
    if problems := preflight.problems(loaded, settings.machine):
        _refuse(errors, *map(str, problems))
    for note in settings.machine.notes:
        console.print(escape(note), style="dim")
    folder = (folder or Path("runs", time.strftime("%Y%m%d-%H%M%S"))).absolute()
    modes: Sequence[Mode] = ("dedicated", "naive", "shared") if compare else (mode,)
    try:
        code = 0
        for each in modes:
            target = folder / each if compare else folder
            jobs = run_folder.create(target, loaded)
            code = max(code, _run_once(console, settings.options(target, each), jobs))
            if code == INTERRUPTED_EXIT_CODE:
                break
        _report(console, folder)
    except (RunFolderError, LinkError) as error:
        _refuse(errors, str(error))
    raise typer.Exit(code)


def _resume(console: Console, errors: Console, folder: Path) -> NoReturn:
    try:
        folder = folder.absolute()
        record, jobs = run_folder.reopen(folder)
        widest = max(job.job.spec.workers.least for job in jobs)
        want_gpus = any(job.job.spec.workers.gpus_per_worker for job in jobs)
        machine = find_machine(max(widest, len(record.slots)), want_gpus=want_gpus)
        settings = Settings(machine, record.network, record.link_mbit)
        code = _run_once(console, settings.options(folder, record.mode), jobs, record)
        _report(console, folder)
    except (RunFolderError, LinkError) as error:
        _refuse(errors, str(error))
    raise typer.Exit(code)


def _run_once(
    console: Console, options: RunOptions, jobs: Sequence[RunJob], before: RunRecord | None = None
) -> int:
    with run_folder.locked(options.run_folder):
        title = f"{options.mode}: {', '.join(job.job.name for job in jobs)}"
        with closing(LiveView(console, title)) as live:

            def show(runner: LocalRunner) -> None:
                latest = runner.record.plans[-1:]
                waiting = [f"{job}: {why}" for plan in latest for job, why in plan.waiting.items()]
                groups = [group for plan in latest for group in plan.groups]
                live.update([_row(job) for job in runner.jobs], waiting, groups)

            def tell(event: EventRecord) -> None:
                style = "yellow" if event.warning else "dim"
                who = f"{event.job}: " if event.job else ""
                console.print(f"[{style}]{escape(who + event.text)}[/{style}]")

            runner = LocalRunner(jobs, options, View(show, tell), before)
            record = runner.run()
    if runner.stopping:
        console.print(
            f"stopped; go on with: harmony run --resume {escape(str(options.run_folder))}"
        )
        return INTERRUPTED_EXIT_CODE
    return int(any(job.state != "Succeeded" for job in record.jobs))


def _row(job: JobRuntime) -> JobRow:
    workers = tuple(state for state in job.states() if state is not None)
    return JobRow(job.name, job.state, workers, job.job.spec.iterations)


def _report(console: Console, folder: Path) -> None:
    try:
        print_report(folder, console)
    except ReportError as error:
        console.print(escape(str(error)), style="yellow")
    except OSError as error:
        console.print(
            f"the report cannot be written ({escape(str(error))}): nothing else is lost, make it "
            f"later with `harmony report {escape(str(folder))}`",
            style="yellow",
        )


def _refuse(errors: Console, *lines: str) -> NoReturn:
    for line in lines:
        errors.print(f"[red]error:[/red] {escape(line)}", highlight=False, soft_wrap=True)
    raise typer.Exit(2)
