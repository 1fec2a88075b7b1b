"""`harmony workload`: write a trace of parameter-server jobs for `harmony simulate`."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from harmony_simulator.formats.harmony import write_trace
from harmony_simulator.workload.generator import Arrivals, Workload


def workload(
    file: Annotated[Path, typer.Argument(metavar="FILE.csv", help="The trace to write.")],
    jobs: Annotated[int, typer.Option(min=1, help="How many jobs.")] = 80,
    arrivals: Annotated[Arrivals, typer.Option(help="When the jobs come.")] = "AtOnce",
    interarrival_seconds: Annotated[
        float, typer.Option(min=0.001, help="Mean time between jobs, where arrivals are Poisson.")
    ] = Workload.interarrival_seconds,
    seed: Annotated[int, typer.Option(help="The same seed gives the same jobs.")] = 1,
) -> None:
    """Write a workload of parameter-server jobs, from what the examples cost when measured.

    Example: `harmony workload jobs.csv --arrivals Poisson && harmony simulate jobs.csv`.
    """
    trace = Workload(
        seed=seed, jobs=jobs, arrivals=arrivals, interarrival_seconds=interarrival_seconds
    ).trace()
    try:
        write_trace(trace, file)
    except OSError as error:
        raise typer.BadParameter(f"{file} cannot be written: {error.strerror}") from None
    Console(highlight=False, soft_wrap=True).print(f"{len(trace.jobs)} jobs written to {file}")
