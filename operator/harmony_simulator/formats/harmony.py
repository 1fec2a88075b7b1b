"""Harmony's own trace format: CSV, seconds, one job a line. docs/simulator.md describes it."""

import csv
from pathlib import Path
from typing import Final

from harmony_simulator.formats.jobs import read_jobs
from harmony_simulator.formats.table import Row
from harmony_simulator.trace import LONGEST_SECONDS, Stages, Trace, TraceJob

COLUMNS: Final = (
    "id",
    "gpus",
    "submit_seconds",
    "iterations",
    "model",
    "iteration_seconds",
    "load_seconds",
    "compute_seconds",
    "network_seconds",
    "known_duration_seconds",
    "priority",
)
_MOST_GPUS: Final = 1_000_000


def read_trace(file: Path) -> Trace:
    """Return the jobs of a trace; raises TraceError with every problem of the file."""
    return read_jobs(file, COLUMNS, _job)


def write_trace(trace: Trace, file: Path) -> None:
    """Write a trace so that reading it gives the same trace."""
    with file.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(COLUMNS)
        for job in trace.jobs:
            stages = job.stages
            writer.writerow(
                (
                    job.id,
                    job.gpus,
                    job.submit_seconds,
                    job.iterations,
                    job.model,
                    job.iteration_seconds,
                    stages.load_seconds,
                    stages.compute_seconds,
                    stages.network_seconds,
                    job.known_duration_seconds,
                    job.priority,
                )
            )


def _job(row: Row) -> TraceJob:
    most = LONGEST_SECONDS
    return TraceJob(
        id=row.text("id"),
        gpus=row.count("gpus", least=1, most=_MOST_GPUS),
        submit_seconds=row.number("submit_seconds", most=most),
        iterations=row.number("iterations", above=0),
        model=row.text("model"),
        iteration_seconds=row.number("iteration_seconds", above=0, most=most),
        stages=Stages(
            load_seconds=row.number("load_seconds", most=most),
            compute_seconds=row.number("compute_seconds", most=most),
            network_seconds=row.number("network_seconds", most=most),
        ),
        known_duration_seconds=row.number("known_duration_seconds", most=most),
        priority=row.count("priority", least=-1_000_000, most=1_000_000),
    )
