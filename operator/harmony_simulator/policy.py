"""What a policy is: who runs from now until the next event, and how fast.

A policy decides over the jobs that were submitted and have not finished, and touches nothing:
the event loop alone advances jobs. It may keep what it learnt from event to event, so one
object serves one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from harmony_simulator.trace import Cluster, TraceJob


@dataclass(frozen=True, slots=True)
class Execution:
    """How a job runs until the next event."""

    iteration_seconds: float
    """Its present time for one iteration, whatever slows it included."""
    startup_seconds: float
    """Lost at the beginning of the interval, without progress."""


@dataclass(slots=True)
class JobState:
    """A job in the course of a run; the event loop alone changes it."""

    job: TraceJob
    remaining_iterations: float
    accounted_seconds: float
    """Up to when its progress is counted."""
    executed_seconds: float = 0.0
    """On GPUs so far, start-up included."""
    first_start_seconds: float | None = None
    execution: Execution | None = None
    """None while it waits."""


@dataclass(frozen=True)
class Decision:
    """What holds until the next event."""

    executions: Mapping[str, Execution]
    """Of the jobs that run, by id; all others wait."""
    used_gpus: int
    order: Sequence[JobState]
    """All the jobs, as the policy wants to find them at the next event; ties fall by it."""
    wake_seconds: float | None = None
    """When to ask again, if nothing happens before."""


@dataclass(frozen=True)
class Simultaneity:
    """Which events count as one. The published simulators differ in it, and ties depend on it."""

    finishes_relative: float = 0.0
    """Finishes that are so close to one another."""
    arrival_seconds: float = 0.0
    arrival_relative: float = 0.0
    """A finish that is so close to an arrival, by either; it is then at the arrival's time."""


class Policy(Protocol):
    """Decides anew at each arrival, each finish and each time that it asked for."""

    @property
    def name(self) -> str:
        """For tables."""

    @property
    def simultaneity(self) -> Simultaneity:
        """Which events are one for it."""

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:
        """Return what runs from now on.

        `active` has the order of the last decision, without the jobs that finished and with
        the new ones at its end. Each still has the execution of the interval that ends now.
        """


@dataclass
class Pool:
    """The GPUs of a cluster while jobs are placed, in nodes that fill from the first.

    A job of up to a node's GPUs needs one node with room; a wider one needs whole free nodes
    and, for the rest, another with room.
    """

    cluster: Cluster
    free: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.free = [self.cluster.gpus_per_node] * self.cluster.nodes

    @property
    def used(self) -> int:
        """GPUs taken so far."""
        return self.cluster.gpus - sum(self.free)

    def take(self, gpus: int) -> bool:
        """Place a job; False, with nothing taken, where it does not fit."""
        per_node = self.cluster.gpus_per_node
        whole, rest = divmod(gpus, per_node) if gpus > per_node else (0, gpus)
        chosen = [node for node, free in enumerate(self.free) if free == per_node][:whole]
        if len(chosen) < whole:
            return False
        if rest:
            others = (n for n, free in enumerate(self.free) if free >= rest and n not in chosen)
            last = next(others, None)
            if last is None:
                return False
            self.free[last] -= rest
        for node in chosen:
            self.free[node] = 0
        return True
