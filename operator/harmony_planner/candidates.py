"""Which groups a job may gain most in, found without going through all of them.

Groups that are alike (in members, in shares of the resources, in length and in speed) are kept
together, and each kind of job has its own ranking of these sets, made from one sample of each.
So a search costs as many steps as there are kinds, however many groups there are. The ranking
is by a bound with a guess of what it is missed by; who joins whom is decided by a prediction.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from math import log2
from typing import Final

from harmony_planner.draft import Draft
from harmony_planner.fitting import closed, fits
from harmony_planner.grouping import (
    LARGEST_GROUP,
    PROBE_SPEED,
    Loads,
    most_speed,
    why_no_memory,
    why_not_together,
)
from harmony_planner.loads import Load
from harmony_planner.snapshot import Job

_PARTS: Final = 8
"""Of a share or of a speed: what differs by less is alike."""
_LOOKED_AT_TOGETHER: Final = 4
"""So many groups of one set are compared before the first is returned."""
_HOPELESS: Final = -0.3
"""Of the estimated gain: such groups are not returned."""

_Kind = tuple[object, ...]


@dataclass(eq=False)
class _Set:
    """Groups that are alike."""

    loads: tuple[Load | None, ...]
    """Of the first one."""
    speed: float
    drafts: dict[str, Draft] = field(default_factory=dict)


class Candidates:
    """The groups that others may join."""

    def __init__(self, loads: Loads) -> None:
        self._loads = loads
        self._sets: dict[str, dict[_Kind, _Set]] = {}
        """By namespace, in the order in which they came up."""
        self._rankings: dict[tuple[str, _Kind], tuple[list[tuple[float, int]], list[_Set]]] = {}

    def add(self, draft: Draft) -> None:
        """Take up a group, unless nobody can join it."""
        if _is_open(draft):
            sets = self._sets.setdefault(draft.jobs[0].namespace, {})
            kind = _kind(draft)
            if kind not in sets:
                sets[kind] = _Set(draft.loads, draft.speed)
            sets[kind].drafts[draft.name] = draft

    def remove(self, draft: Draft) -> None:
        """Forget a group."""
        if _is_open(draft):
            del self._sets[draft.jobs[0].namespace][_kind(draft)].drafts[draft.name]

    def promising(self, job: Job) -> Iterator[Draft]:
        """Yield the groups that the rules let the job join, those that may gain most first."""
        if job.policy == "Exclusive":
            return
        load = self._loads.of(job, ())
        for estimate, alike in self._ranked(job.namespace, load):
            if estimate < _HOPELESS:
                return
            joinable = (draft for draft in alike.drafts.values() if _may_join(job, draft))
            while some := list(islice(joinable, _LOOKED_AT_TOGETHER)):
                yield from self._sorted(job, some)

    def best_first(self, job: Job, drafts: Iterable[Draft]) -> list[Draft]:
        """Return those of the groups that the job may join, in the same order."""
        return self._sorted(
            job, [each for each in drafts if _is_open(each) and _may_join(job, each)]
        )

    def most_gain(self, job: Job, drafts: Iterable[Draft]) -> float | None:
        """Return the largest estimate of these groups; None where the job can join none."""
        for draft in self.best_first(job, drafts):
            return self._estimate(draft.loads, draft.speed, self._loads.of(job, draft.slots))
        return None

    def _sorted(self, job: Job, drafts: Sequence[Draft]) -> list[Draft]:
        gains = [
            self._estimate(draft.loads, draft.speed, self._loads.of(job, draft.slots))
            for draft in drafts
        ]
        order = sorted(range(len(drafts)), key=lambda at: (-gains[at], at))
        return [drafts[at] for at in order if gains[at] >= _HOPELESS]

    def _ranked(self, namespace: str, load: Load | None) -> Iterable[tuple[float, _Set]]:
        """Return all sets, those first in which such a job may gain most."""
        kind = _shares([load])
        ranking, known = self._rankings.setdefault((namespace, kind), ([], []))
        sets = self._sets.get(namespace, {})
        for alike in islice(sets.values(), len(known), None):
            gain = self._estimate(alike.loads, alike.speed, load)
            insort(ranking, (-gain, len(known)))
            known.append(alike)
        return ((-gain, known[at]) for gain, at in ranking if known[at].drafts)

    def _estimate(self, loads: Sequence[Load | None], speed: float, newcomer: Load | None) -> float:
        """Return how much total speed a newcomer may bring at most, or a guess of it."""
        limit = most_speed([*loads, newcomer], self._loads.link)
        lengths = [load.seconds for load in (*loads, newcomer) if load is not None]
        if len(lengths) <= len(loads):
            return PROBE_SPEED - speed
        return limit * (1 - _missed_by(max(lengths) / min(lengths))) - speed


def _missed_by(ratio: float) -> float:
    """Return by which part a group misses its bound, typically, when lengths differ so much."""
    return min(0.17, 0.05 + 0.08 * log2(ratio))


def _is_open(draft: Draft) -> bool:
    if len(draft.jobs) >= LARGEST_GROUP or draft.slots[0].closed is not None:
        return False
    if len(draft.jobs) > 1 and None in draft.loads:
        return False
    return all(job.policy == "Shared" for job in draft.jobs)


def _may_join(job: Job, draft: Draft) -> bool:
    its_slots = draft.slots[: job.workers]
    jobs = (*draft.jobs, job)
    return (
        closed(its_slots) is None
        and all(fits(job, slot) for slot in its_slots)
        and why_not_together(jobs) is None
        and why_no_memory(jobs, its_slots) is None
    )


def _kind(draft: Draft) -> _Kind:
    return len(draft.jobs), round(_PARTS * draft.speed), *_shares(draft.loads)


def _shares(loads: Sequence[Load | None]) -> _Kind:
    """Return the shares of the resources that some jobs need, and their length, roughly."""
    known = [load for load in loads if load is not None]
    if len(known) < len(loads):
        return ()
    return (
        round(_PARTS * sum([load.compute for load in known])),
        round(_PARTS * sum([load.pull for load in known])),
        round(_PARTS * sum([load.push for load in known])),
        round(_PARTS * sum([load.update for load in known])),
        round(log2(max([load.seconds for load in known]))),
    )
