"""Groups of jobs that make the most of the GPUs that they take.

A group takes its members' GPUs once, so among groups the denser one, worth more per GPU, goes
first. The densest of a queue is found size by size: the best groups of each size are extended
by one more member. Three may be slow together and four fast, so no size ends the search.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

LARGEST_GROUP: Final = 4
_BEAM: Final = 40
"""Groups of each size that are extended."""
_LEAST_GAIN: Final = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Candidate:
    """A job that may run; no two are equal, which makes groups of them quick to look up."""

    name: str
    gpus: int
    profile: int
    """The number of its kind: jobs of one kind and width are alike but for their value."""
    alone_seconds: float
    """Of an iteration without sharing."""
    value: float
    """Of one second of its progress alone."""


Group = tuple[Candidate, ...]
CycleSeconds = Callable[[Group], float]
"""The time in which each member of a group iterates once."""
Value = Callable[[Group], float]
"""What a second of a group is worth."""


class Waiting:
    """Candidates of one width in no group, by profile, the most valuable first."""

    def __init__(self) -> None:
        self.of_profile: dict[int, list[Candidate]] = {}

    def add(self, candidate: Candidate) -> None:
        """Let it wait, behind those of its kind that are worth as much."""
        listed = self.of_profile.setdefault(candidate.profile, [])
        place = next((i for i, c in enumerate(listed) if c.value < candidate.value), len(listed))
        listed.insert(place, candidate)

    def remove(self, candidate: Candidate) -> None:
        """Let it wait no more."""
        listed = self.of_profile[candidate.profile]
        listed.remove(candidate)
        if not listed:
            del self.of_profile[candidate.profile]

    def best(self) -> list[Candidate]:
        """Return the most valuable of each kind."""
        return [listed[0] for listed in self.of_profile.values()]


def densest_groups(waiting: Mapping[int, Waiting], free_gpus: int, value: Value) -> list[Group]:
    """Return disjoint groups of waiting jobs, by their GPUs, that fit; the densest first."""
    taken: set[str] = set()
    densest: dict[int, Group] = {}
    chosen: list[Group] = []
    while True:
        for gpus, jobs in waiting.items():
            if gpus <= free_gpus and gpus not in densest:
                densest[gpus] = _densest(jobs, taken, value)
        fitting = [(group, gpus) for gpus, group in densest.items() if group and gpus <= free_gpus]
        if not fitting:
            return chosen
        group, gpus = max(fitting, key=lambda one: value(one[0]) / one[1])
        chosen.append(group)
        free_gpus -= gpus
        taken.update(member.name for member in group)
        del densest[gpus]


def _densest(waiting: Waiting, taken: set[str], value: Value) -> Group:
    """Return the group of jobs not taken that is worth the most; empty where there is none."""
    lists = [
        left[:LARGEST_GROUP]
        for listed in waiting.of_profile.values()
        if (left := [candidate for candidate in listed if candidate.name not in taken])
    ]
    beam: list[tuple[Group, tuple[int, ...]]] = [((), ())]
    best: Group = ()
    for _ in range(LARGEST_GROUP):
        longer: dict[tuple[int, ...], Group] = {}
        for group, profiles in beam:
            for profile, listed in enumerate(lists):
                count = profiles.count(profile)
                key = tuple(sorted((*profiles, profile)))
                if count < len(listed) and key not in longer:
                    longer[key] = (*group, listed[count])
        ranked = sorted(longer.items(), key=lambda item: -value(item[1]))
        beam = [(group, key) for key, group in ranked[:_BEAM]]
        if beam and value(beam[0][0]) > value(best) + _LEAST_GAIN:
            best = beam[0][0]
    return best
