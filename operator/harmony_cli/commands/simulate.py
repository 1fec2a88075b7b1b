"""`harmony simulate`: what policies would make of a trace, side by side."""

import csv
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.formats import harmony, muri
from harmony_simulator.results import Result
from harmony_simulator.runs import Run, World, policy_names, run_all
from harmony_simulator.trace import Cluster, Trace, TraceError

Format = Literal["parquet", "csv"]

_DEFAULT_POLICIES = ("dedicated", "naive", "partitions", "harmony")


def simulate(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="TRACE", help="CSV of jobs: Harmony's own columns, or those of Muri."
        ),
    ],
    policies: Annotated[
        list[str] | None,
        typer.Option(
            "--policy", metavar="NAME", help="Repeat it for several; the first is the baseline."
        ),
    ] = None,
    world: Annotated[
        World,
        typer.Option(help="Harmony: speeds from phases that share slots. Muri: its constants."),
    ] = "Harmony",
    nodes: Annotated[int, typer.Option(min=1, help="Nodes of the cluster.")] = 100,
    gpus_per_node: Annotated[
        int, typer.Option(min=1, help="GPUs (or CPU slots) of each node.")
    ] = 1,
    cluster: Annotated[
        Path | None, typer.Option(help="CSV of a cluster in Muri's format, instead of both.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, help="Runs of each policy, with seeds from 1 up.")
    ] = 1,
    startup_seconds: Annotated[
        float, typer.Option(min=0, help="Of a job's workers, whenever it starts or moves.")
    ] = Conditions.startup_seconds,
    noise: Annotated[
        float, typer.Option(min=0, max=1, help="Of measured profiles and of true cycles.")
    ] = Conditions.noise,
    failures_per_node_day: Annotated[
        float, typer.Option(min=0, help="How often a node is lost.")
    ] = 0.0,
    slow_spells_per_node_day: Annotated[
        float, typer.Option(min=0, help="How often a node becomes slow for a while.")
    ] = 0.0,
    output: Annotated[
        Path | None,
        typer.Option(help="Folder for the jobs' outcomes, samples over time, and pictures."),
    ] = None,
    table_format: Annotated[
        Format, typer.Option("--format", help="Of the tables in the folder.")
    ] = "parquet",
    processes: Annotated[
        int | None, typer.Option(min=1, help="Simulations at a time; default: one per core.")
    ] = None,
) -> None:
    """Simulate a trace under some policies, and compare them.

    Examples: `harmony simulate jobs.csv --policy dedicated --policy harmony --output out`,
    `harmony simulate trace3.csv --world Muri --policy srsf --policy muri-s --cluster n8g8.csv`.
    """
    console = Console(highlight=False)
    try:
        trace = _read_trace(file)
        machines = muri.read_cluster(cluster) if cluster else Cluster(nodes, gpus_per_node)
    except TraceError as error:
        _print_problems(error)
        raise typer.Exit(1) from None
    names = _chosen(policies, world)
    conditions = Conditions(
        startup_seconds=startup_seconds,
        noise=noise,
        failures_per_node_day=failures_per_node_day,
        slow_spells_per_node_day=slow_spells_per_node_day,
    )
    runs = [
        Run(
            trace=trace,
            policy=name,
            cluster=machines,
            world=world,
            conditions=replace(conditions, seed=seed),
        )
        for name in names
        for seed in range(1, seeds + 1)
    ]
    results = _run_with_progress(runs, processes, console)
    of_policy = {
        name: results[index * seeds : (index + 1) * seeds] for index, name in enumerate(names)
    }
    rows = [_Row.of(name, of_policy[name]) for name in names]
    if output is not None:
        try:
            written = _write(output, table_format, of_policy, rows)
        except OSError as error:
            raise typer.BadParameter(
                f"{error.filename or output} cannot be written: {error.strerror}",
                param_hint="--output",
            ) from None
        for path in written:
            console.print(f"[dim]{escape(str(path))}[/dim]", soft_wrap=True)
    console.print(_table(rows))
    for name in names:
        for outcome in of_policy[name][0].unfinished:
            why = outcome.reason or "never finished"
            console.print(f"[dim]{escape(f'{name}: {outcome.id} {why}')}[/dim]", soft_wrap=True)


def _read_trace(file: Path) -> Trace:
    """Return the trace, by the format that its header is of."""
    try:
        with file.open(encoding="utf-8-sig", errors="replace") as stream:
            header = next(csv.reader(stream), [])
    except (OSError, csv.Error):
        header = []
    return muri.read_trace(file) if "num_gpu" in header else harmony.read_trace(file)


def _print_problems(error: TraceError) -> None:
    errors = Console(stderr=True, soft_wrap=True, highlight=False)
    for problem in error.problems:
        errors.print(f"[red]{escape(str(problem))}[/red]")
    count = len(error.problems)
    errors.print("1 problem" if count == 1 else f"{count} problems")


def _chosen(policies: Sequence[str] | None, world: World) -> list[str]:
    known = policy_names(world)
    chosen = list(dict.fromkeys(policies or ())) or [n for n in _DEFAULT_POLICIES if n in known]
    chosen = chosen or list(known)
    for name in chosen:
        if name not in known:
            raise typer.BadParameter(
                f"{name} is no policy of {world}'s world; it has {', '.join(known)}",
                param_hint="--policy",
            )
    return chosen


def _run_with_progress(
    runs: Sequence[Run], processes: int | None, console: Console
) -> list[Result]:
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=sum(len(run.trace.jobs) for run in runs))

        def advance(finished: int) -> None:
            progress.update(task, completed=finished)

        return run_all(runs, processes=processes, on_progress=advance)


@dataclass(frozen=True)
class _Row:
    """A policy's figures: medians over its seeds."""

    policy: str
    mean_completion_seconds: float
    p99_completion_seconds: float
    makespan_seconds: float
    compute_utilisation: float
    network_utilisation: float
    unfinished: int

    @classmethod
    def of(cls, policy: str, results: Sequence[Result]) -> "_Row":
        def median(value: Callable[[Result], float]) -> float:
            return statistics.median(map(value, results))

        return cls(
            policy=policy,
            mean_completion_seconds=median(lambda result: result.mean_completion_seconds),
            p99_completion_seconds=median(lambda result: result.p99_completion_seconds),
            makespan_seconds=median(lambda result: result.makespan_seconds),
            compute_utilisation=median(lambda result: result.mean_utilisation()[0]),
            network_utilisation=median(lambda result: result.mean_utilisation()[1]),
            unfinished=max(len(result.unfinished) for result in results),
        )


def _table(rows: Sequence[_Row]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("policy")
    first = rows[0]
    for column in ("mean completion", "p99", "makespan", "COMP", "NET", "unfinished"):
        table.add_column(column, justify="right")
    for row in rows:
        table.add_row(
            row.policy,
            _seconds(row.mean_completion_seconds, first.mean_completion_seconds),
            _seconds(row.p99_completion_seconds, first.p99_completion_seconds),
            _seconds(row.makespan_seconds, first.makespan_seconds),
            f"{100 * row.compute_utilisation:.0f} %",
            f"{100 * row.network_utilisation:.0f} %",
            str(row.unfinished) if row.unfinished else "",
        )
    return table


def _seconds(value: float, baseline: float) -> str:
    """Return a time, and what part it is of the first policy's."""
    return f"{value:,.0f} s ({value / baseline:.2f})" if baseline else f"{value:,.0f} s"


def _write(
    folder: Path,
    table_format: Format,
    of_policy: Mapping[str, Sequence[Result]],
    rows: Sequence[_Row],
) -> list[Path]:
    """Write tables of every run, pictures of the first seed's, and the figures."""
    from harmony_simulator.plots import draw  # the pictures' library loads slowly

    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for policy, results in of_policy.items():
        for seed, result in enumerate(results, 1):
            stem = policy if len(results) == 1 else f"{policy}-seed-{seed}"
            files = [folder / f"{stem}-{what}.{table_format}" for what in ("jobs", "samples")]
            result.write(*files)
            written += files
    written += draw({policy: results[0] for policy, results in of_policy.items()}, folder)
    summary = folder / "summary.csv"
    with summary.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(_Row.__dataclass_fields__))
        writer.writeheader()
        writer.writerows(vars(row) for row in rows)
    return [*written, summary]
