"""What a simulation is given: the jobs of a trace, and the cluster that they share.

A trace is valid by construction of its readers: every time is finite, no time is negative, ids
are unique, and jobs stand in the order of their submission. A job may be wider than the
cluster: that is no fault of the trace, and the simulation says so in its result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

LONGEST_SECONDS: Final = 100 * 365.25 * 86_400
"""No time of a trace is longer: a hundred years are a mistake of units."""


@dataclass(frozen=True)
class Problem:
    """One thing to correct in a file."""

    file: str
    line: int | None
    """From 1, the header included; None where no line is to blame."""
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}: {self.message}"


class TraceError(Exception):
    """A trace or cluster file has problems; `problems` lists them all, in order of their lines."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


@dataclass(frozen=True)
class Stages:
    """Seconds of one iteration by the resource that it uses."""

    load_seconds: float
    """Storage and CPU: the reading and preparing of input."""
    compute_seconds: float
    network_seconds: float

    @property
    def total_seconds(self) -> float:
        """All three, one after the other."""
        return self.load_seconds + self.compute_seconds + self.network_seconds


@dataclass(frozen=True)
class TraceJob:
    """A job as the trace tells it."""

    id: str
    gpus: int
    """Of all its workers."""
    submit_seconds: float
    """From the trace's time 0."""
    iterations: float
    model: str
    iteration_seconds: float
    """Alone on its GPUs, as in the file: no start-up and no sharing is charged in it."""
    stages: Stages
    """Of one iteration; their sum need not be `iteration_seconds`."""
    known_duration_seconds: float
    """What the job's owner says that it takes; it may differ from what it does take."""
    priority: int = 0

    @property
    def work_seconds(self) -> float:
        """Alone on its GPUs, from its first iteration to its last."""
        return self.iterations * self.iteration_seconds


@dataclass(frozen=True)
class Trace:
    """Jobs in the order of their submission; of one time, in the order of the file."""

    jobs: tuple[TraceJob, ...]

    @classmethod
    def of(cls, jobs: Sequence[TraceJob]) -> "Trace":
        """Return the trace of jobs that may stand in any order."""
        return cls(tuple(sorted(jobs, key=lambda job: job.submit_seconds)))


@dataclass(frozen=True)
class Cluster:
    """Nodes that are all alike."""

    nodes: int
    gpus_per_node: int

    def __post_init__(self) -> None:
        if self.nodes < 1:
            raise ValueError(f"a cluster needs at least one node, not {self.nodes}")
        if self.gpus_per_node < 1:
            raise ValueError(f"a node needs at least one GPU, not {self.gpus_per_node}")

    @property
    def gpus(self) -> int:
        """Of all nodes."""
        return self.nodes * self.gpus_per_node
