"""Policies that give each job GPUs of its own and order the jobs by one key.

Jobs are placed in that order, each where it fits; a job that does not fit is passed over and
the scan goes on, so narrow jobs fill what wide ones leave. FIFO alone neither preempts nor
passes over a job that fits in the cluster at all.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harmony_simulator.charges import alone_seconds, startup_seconds
from harmony_simulator.policy import Decision, Execution, JobState, Pool, Simultaneity
from harmony_simulator.trace import Cluster

_NEAR_FINISHES: Final = Simultaneity(finishes_relative=1e-9)


def alone(state: JobState) -> Execution:
    """Return how a job runs on GPUs of its own."""
    return Execution(alone_seconds(state.job), startup_seconds(state.job))


@dataclass(frozen=True)
class Ordered:
    """The least key first, preempting whoever has a larger one."""

    name: str
    key: Callable[[JobState], float]
    simultaneity: Simultaneity = _NEAR_FINISHES

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:  # noqa: ARG002
        """Return the jobs that fit, in ascending order of their keys."""
        order = sorted(active, key=self.key)
        pool = Pool(cluster)
        running = {state.job.id: alone(state) for state in order if pool.take(state.job.gpus)}
        return Decision(running, pool.used, order)


@dataclass(frozen=True)
class Fifo:
    """In the order of arrival, each job until it finishes; the first that waits blocks the rest."""

    name: str = "FIFO"
    simultaneity: Simultaneity = _NEAR_FINISHES

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:  # noqa: ARG002
        """Return the jobs up to the first that does not fit beside those before it."""
        pool = Pool(cluster)
        running = {}
        for state in active:
            if state.job.gpus > cluster.gpus:
                continue
            if not pool.take(state.job.gpus):
                break
            running[state.job.id] = alone(state)
        return Decision(running, pool.used, active)


def remaining_seconds(state: JobState) -> float:
    """Return the time that is left to a job alone."""
    return state.remaining_iterations * alone_seconds(state.job)


def srtf() -> Ordered:
    """Shortest remaining time first."""
    return Ordered("SRTF", remaining_seconds)


def srsf() -> Ordered:
    """Shortest remaining service, in GPU-seconds, first."""
    return Ordered("SRSF", lambda state: remaining_seconds(state) * state.job.gpus)
