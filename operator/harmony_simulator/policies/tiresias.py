"""Tiresias (NSDI 2019), as Muri's simulator has it: least attained service in three queues.

A job moves to the next queue once its GPU-seconds reach the limit of its own, and never back.
The queues are served in turn, each from its head, where running jobs stand before waiting ones.
Room is a count of GPUs here, without nodes. Durations play no part.
"""

import math
from collections.abc import Sequence
from typing import Final

from harmony_simulator.policies.single import alone
from harmony_simulator.policy import Decision, JobState, Simultaneity
from harmony_simulator.trace import Cluster

LIMITS_GPU_SECONDS: Final = (3250.0, 7200.0)
"""At which a job leaves the first and the second queue."""


class Tiresias:
    """Two-dimensional least attained service, discretised."""

    name: Final = "Tiresias"
    simultaneity: Final = Simultaneity()

    def __init__(self) -> None:
        self._queues: list[list[JobState]] = [[] for _ in range(len(LIMITS_GPU_SECONDS) + 1)]
        self._level: dict[str, int] = {}

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:
        """Return the jobs that fit, queue by queue, and wake when one changes its queue."""
        self._forget_finished(active)
        self._admit_and_demote(active)
        free = cluster.gpus
        running = {}
        for level, queue in enumerate(self._queues):
            waiting = []
            for state in queue:
                if state.job.gpus <= free:
                    free -= state.job.gpus
                    running[state.job.id] = alone(state)
                else:
                    waiting.append(state)
            served = [state for state in queue if state.job.id in running]
            self._queues[level] = served + waiting
        jumps = (
            math.ceil(limit / state.job.gpus) - state.executed_seconds + now_seconds
            for limit, queue in zip(LIMITS_GPU_SECONDS, self._queues, strict=False)
            for state in queue
            if state.job.id in running
        )
        return Decision(running, cluster.gpus - free, active, min(jumps, default=None))

    def _forget_finished(self, active: Sequence[JobState]) -> None:
        present = {state.job.id for state in active}
        self._queues = [[s for s in queue if s.job.id in present] for queue in self._queues]

    def _admit_and_demote(self, active: Sequence[JobState]) -> None:
        """Move running jobs by one queue at most; a job that waited stays put."""
        for state in active:
            job = state.job
            if job.id not in self._level:
                self._level[job.id] = 0
                self._queues[0].append(state)
            level = self._level[job.id]
            if state.execution is None or level == len(LIMITS_GPU_SECONDS):
                continue
            if state.executed_seconds * job.gpus >= LIMITS_GPU_SECONDS[level]:
                self._queues[level].remove(state)
                self._queues[level + 1].append(state)
                self._level[job.id] = level + 1
