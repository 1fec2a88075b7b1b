"""The trace and cluster files of Muri's published simulator (SIGCOMM 2022), as they are.

Its times are milliseconds. Nothing is charged or normalised here: what an iteration costs under
a policy is not the trace's to say.
"""

from pathlib import Path
from typing import Final

from harmony_simulator.formats.jobs import read_jobs
from harmony_simulator.formats.table import Row, read_rows
from harmony_simulator.trace import (
    LONGEST_SECONDS,
    Cluster,
    Problem,
    Stages,
    Trace,
    TraceError,
    TraceJob,
)

COLUMNS: Final = (
    "job_id",
    "num_gpu",
    "submit_time",
    "iterations",
    "model_name",
    "duration",
    "iteration_time",
    "resource_time_0",
    "resource_time_1",
    "resource_time_2",
    "priority",
)
CLUSTER_COLUMNS: Final = ("num_switch", "num_node_p_switch", "num_gpu_p_node")
_LONGEST_MILLISECONDS: Final = LONGEST_SECONDS * 1000
_MOST_GPUS: Final = 1_000_000


def read_trace(file: Path) -> Trace:
    """Return the jobs of a trace; raises TraceError with every problem of the file."""
    return read_jobs(file, COLUMNS, _job)


def read_cluster(file: Path) -> Cluster:
    """Return the cluster that a file of one line describes; raises TraceError."""
    problems: list[Problem] = []
    clusters = []
    for row in read_rows(file, CLUSTER_COLUMNS, problems):
        switches, nodes, gpus = (row.count(c, least=1, most=_MOST_GPUS) for c in CLUSTER_COLUMNS)
        clusters.append(Cluster(switches * nodes, gpus))
        if len(clusters) > 1:
            row.complain("is a second cluster: a simulation has one")
    if not clusters and not problems:
        problems.append(Problem(str(file), None, "holds no cluster"))
    if problems:
        raise TraceError(problems)
    return clusters[0]


def _job(row: Row) -> TraceJob:
    most = _LONGEST_MILLISECONDS
    return TraceJob(
        id=row.text("job_id"),
        gpus=row.count("num_gpu", least=1, most=_MOST_GPUS),
        submit_seconds=row.number("submit_time", most=most) / 1000,
        iterations=row.number("iterations", above=0),
        model=row.text("model_name"),
        iteration_seconds=row.number("iteration_time", above=0, most=most) / 1000,
        stages=Stages(
            load_seconds=row.number("resource_time_0", most=most) / 1000,
            compute_seconds=row.number("resource_time_1", most=most) / 1000,
            network_seconds=row.number("resource_time_2", most=most) / 1000,
        ),
        known_duration_seconds=int(row.number("duration", most=most)) / 1000,
        priority=row.count("priority", least=0, most=1000),
    )
