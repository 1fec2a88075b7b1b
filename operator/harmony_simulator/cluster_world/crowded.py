"""Policies that put several jobs on a slot without coordinating them.

Naive sharing lets them fight; fixed partitions give each the same part of the device and of
the link, whether or not the others use theirs. Jobs start in the order of submission, on the
emptiest slots, and stay to their end.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harmony_simulator.cluster_world.contention import contended_seconds
from harmony_simulator.cluster_world.phases import true_profile
from harmony_simulator.cluster_world.placing import place
from harmony_simulator.cluster_world.world import Arrangement, Places, Situation
from harmony_simulator.policy import JobState

NAIVE_JOBS_PER_SLOT: Final = 2
PARTITIONS: Final = 2

Speeds = Callable[[Mapping[str, JobState], Places], dict[str, float]]


@dataclass
class Crowded:
    """Up to so many jobs on a slot, as fast as `speeds` says."""

    name: str
    jobs_per_slot: int
    speeds: Speeds
    _places: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def arrange(self, situation: Situation) -> Arrangement:
        """Return the jobs for which there is room, the running ones first."""
        order = sorted(situation.active, key=lambda state: state.job.id not in self._places)
        chosen = _with_room(order, len(situation.slots), self.jobs_per_slot)
        self._places = place(chosen, self._places, situation.slots, self.jobs_per_slot)
        jobs = {state.job.id: state for state in chosen}
        return Arrangement(self._places, self.speeds(jobs, self._places))


def fighting(jobs: Mapping[str, JobState], places: Places) -> dict[str, float]:
    """Return seconds per iteration without coordination; a job is as fast as its slowest worker."""
    residents: dict[int, list[str]] = defaultdict(list)
    for job, slots in places.items():
        for slot in slots:
            residents[slot].append(job)
    seconds = dict.fromkeys(places, 0.0)
    for together in Counter(map(tuple, residents.values())):
        phases = tuple(_phases(jobs[job]) for job in together)
        for job, one in zip(together, contended_seconds(phases), strict=True):
            seconds[job] = max(seconds[job], one)
    return seconds


def partitioned(jobs: Mapping[str, JobState], places: Places) -> dict[str, float]:
    """Return seconds per iteration with a fixed part of the device and of the link."""
    return {job: PARTITIONS * sum(_phases(jobs[job])) for job in places}


def _phases(state: JobState) -> tuple[float, float]:
    profile = true_profile(state.job)
    return profile.compute_seconds, profile.network_seconds


def _with_room(order: Sequence[JobState], slots: int, jobs_per_slot: int) -> list[JobState]:
    """Return the jobs that fit; each worker of a job is on another slot."""
    room = slots * jobs_per_slot
    chosen = []
    for state in order:
        if state.job.gpus <= min(room, slots):
            chosen.append(state)
            room -= state.job.gpus
    return chosen
