"""How a policy of this world becomes one of the event loop: start-up, slow nodes, lost nodes.

An arranger says where jobs are and how fast they are there. What that costs is charged here,
in the same way for all of them: a job whose slots changed makes no progress until its workers
have started, and one with a worker on a slow node waits for it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harmony_simulator.cluster_world.conditions import Conditions, Nodes
from harmony_simulator.policy import Decision, Execution, JobState, Simultaneity
from harmony_simulator.trace import Cluster

Places = Mapping[str, tuple[int, ...]]
"""By job that runs, the slot of each worker. A worker has one GPU or CPU share, and a slot is
what one worker uses; each slot has a link of its own."""


@dataclass(frozen=True)
class Arrangement:
    """Where jobs run and how fast, until the next event."""

    places: Places
    iteration_seconds: Mapping[str, float]
    """Of the jobs that have places, on nodes of full speed, once they have started."""
    wake_seconds: float | None = None
    """When to ask again, if nothing happens before."""


@dataclass(frozen=True)
class Situation:
    """What an arranger may rest on."""

    now_seconds: float
    active: Sequence[JobState]
    """In the order of submission."""
    slots: Sequence[int]
    """Those that work."""
    ready_seconds: Mapping[str, float]
    """When the workers of each job that had a place have, or will have, started."""


class Arranger(Protocol):
    """Decides where jobs run."""

    @property
    def name(self) -> str:
        """For tables."""

    def arrange(self, situation: Situation) -> Arrangement:
        """Return where the jobs run from now on."""


class ClusterPolicy:
    """An arranger under conditions, as a policy of the event loop."""

    simultaneity = Simultaneity()

    def __init__(self, arranger: Arranger, conditions: Conditions) -> None:
        self.name = arranger.name
        self.starts = 0
        """How often a job was started, or started again somewhere else."""
        self._arranger = arranger
        self._conditions = conditions
        self._nodes: Nodes | None = None
        self._places: dict[str, tuple[int, ...]] = {}
        self._ready: dict[str, float] = {}

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:
        """Return what runs until the next event."""
        if self._nodes is None:
            self._nodes = self._conditions.nodes(cluster.nodes)
        up = self._nodes.up(now_seconds)
        per_node = cluster.gpus_per_node
        slots = [node * per_node + index for node in up for index in range(per_node)]
        self._forget(active, slots)
        arranged = self._arranger.arrange(Situation(now_seconds, active, slots, self._ready))
        self._move(now_seconds, arranged.places)
        slow = {
            node * per_node + index
            for node in self._nodes.slow(now_seconds)
            for index in range(per_node)
        }
        executions = {}
        for job, place in arranged.places.items():
            seconds = arranged.iteration_seconds[job]
            if slow and not slow.isdisjoint(place):
                seconds *= self._conditions.slow_factor
            started = self._ready[job] <= now_seconds
            executions[job] = Execution(seconds if started else math.inf, 0.0)
        wakes = [self._ready[job] for job in arranged.places if self._ready[job] > now_seconds]
        wakes += [
            wake
            for wake in (arranged.wake_seconds, self._nodes.next_change(now_seconds))
            if wake is not None
        ]
        return Decision(
            executions=executions,
            used_gpus=len({slot for place in arranged.places.values() for slot in place}),
            order=active,
            wake_seconds=min(wakes, default=None) if active else None,
        )

    def _forget(self, active: Sequence[JobState], slots: Sequence[int]) -> None:
        """Drop jobs that finished, and the places of those that lost a worker."""
        names, working = {state.job.id for state in active}, set(slots)
        self._places = {
            job: place
            for job, place in self._places.items()
            if job in names and working.issuperset(place)
        }
        self._ready = {job: at for job, at in self._ready.items() if job in names}

    def _move(self, now_seconds: float, places: Places) -> None:
        for job, place in places.items():
            if self._places.get(job) != place:
                self.starts += 1
                self._ready[job] = now_seconds + self._conditions.startup_seconds
        self._places = dict(places)
