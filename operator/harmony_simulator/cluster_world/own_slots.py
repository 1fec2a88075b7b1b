"""Policies that give every job slots of its own: the baselines of sharing.

Dedicated is what a cluster without Harmony does: a job gets the slots that it asks for in the
order of submission, keeps them to its end, and uses them alone. Narrow jobs may start before a
wide one for which there is not enough room, as the default scheduler lets them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harmony_simulator.cluster_world.phases import true_profile
from harmony_simulator.cluster_world.placing import place
from harmony_simulator.cluster_world.world import Arrangement, Situation
from harmony_simulator.policy import JobState

Key = Callable[[JobState], float]


def alone_seconds(state: JobState) -> float:
    """Return the seconds of an iteration of a job that shares with none."""
    return true_profile(state.job).iteration_seconds


def submitted(state: JobState) -> float:
    """First come, first served."""
    return state.job.submit_seconds


def remaining_seconds(state: JobState) -> float:
    """Shortest remaining time first."""
    return state.remaining_iterations * alone_seconds(state)


def remaining_service(state: JobState) -> float:
    """Shortest remaining service first: slots times seconds."""
    return remaining_seconds(state) * state.job.gpus


@dataclass
class OwnSlots:
    """Jobs in the order of a key, each on slots of its own."""

    name: str
    key: Key
    preempts: bool
    passes_over: bool = True
    """Whether narrow jobs may start before a wide one that does not fit now."""
    _places: dict[str, tuple[int, ...]] = field(default_factory=dict)

    def arrange(self, situation: Situation) -> Arrangement:
        """Return the jobs that fit, in ascending order of their keys."""
        order = sorted(situation.active, key=self.key)
        if not self.preempts:
            order.sort(key=lambda state: state.job.id not in self._places)
        chosen = _fitting(order, len(situation.slots), passes_over=self.passes_over)
        self._places = place(chosen, self._places, situation.slots)
        seconds = {s.job.id: alone_seconds(s) for s in chosen if s.job.id in self._places}
        return Arrangement(self._places, seconds)


def _fitting(order: Sequence[JobState], room: int, *, passes_over: bool) -> list[JobState]:
    total = room
    chosen = []
    for state in order:
        if state.job.gpus <= room:
            chosen.append(state)
            room -= state.job.gpus
        elif not passes_over and state.job.gpus <= total:
            break
    return chosen
