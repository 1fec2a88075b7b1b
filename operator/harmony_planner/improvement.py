"""Better groups for jobs that have not started: places changed, and members exchanged.

Jobs take their places one at a time, so an early choice can be in the way of a better plan. As
long as a job has no workers, another place costs nothing. The value of a plan is the total
speed of its groups and a little for each job that runs; a step is taken when it raises that,
and jobs that have slots whether or not anybody shares never lose their place.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from typing import Final

from harmony_planner.board import Board
from harmony_planner.draft import Draft
from harmony_planner.fitting import closed, fits
from harmony_planner.grouping import (
    LARGEST_GROUP,
    RUNNING_COUNTS,
    WORTHWHILE_GAIN,
    most_speed,
    why_not_together,
)
from harmony_planner.snapshot import Job

LEAST_GAIN: Final = 0.005
"""In value: what is less is no reason for a step."""
FEW_JOBS: Final = 40
"""Of more jobs in a plan, each step matters less, and fewer are looked at."""
MOST_LOOKED_AT: Final = 32
LEAST_LOOKED_AT: Final = 8
"""Jobs that have not started, groups, and jobs that wait: the first ones of each."""
MOST_JUDGED: Final = 2000
"""Workers in groups that are judged, in one plan: then it is good enough."""
LEAST_JUDGED: Final = 16
"""The same, however many jobs there are."""
_ROOM_FOR_ONE_MORE: Final = 0.5
"""What a step may gain besides, where jobs wait that could join a changed group."""


def improve(board: Board, waiting: Sequence[Job], kept: Collection[str]) -> bool:
    """Take the steps that gain most, until none is left; say whether there was one.

    Jobs that are `kept` stay placed.
    """
    search = _Search(board, waiting, kept)
    steps = 0
    while search.take_best_step():
        steps += 1
    return steps > 0


@dataclass(frozen=True)
class _Step:
    """Groups with other members, and at most how much more they are worth then."""

    bound: float
    members: tuple[tuple[Draft, tuple[Job, ...]], ...]
    leaving: tuple[Job, ...] = ()
    """Those who have no place then, unless another one is found."""


class _Search:
    def __init__(self, board: Board, waiting: Sequence[Job], kept: Collection[str]) -> None:
        self._board = board
        self._kept = kept
        jobs = len(waiting) + sum(len(draft.jobs) for draft in board.drafts.values())
        few = min(1.0, FEW_JOBS / max(1, jobs))
        self._looked_at = max(LEAST_LOOKED_AT, round(few * MOST_LOOKED_AT))
        self._waiting = [*waiting[: self._looked_at]]
        self._last = board.judged + max(LEAST_JUDGED, round(few * MOST_JUDGED))

    def take_best_step(self) -> bool:
        """Take the step that gains most; say whether there was one."""
        best: _Step | None = None
        best_gain = LEAST_GAIN
        for step in sorted(self._steps(), key=lambda step: -step.bound):
            if step.bound <= best_gain or self._board.judged > self._last:
                break
            mark = self._board.mark()
            gain = self._gain(step)
            self._board.take_back(mark)
            if gain > best_gain:
                best, best_gain = step, gain
        if best is None:
            return False
        mark = self._board.mark()
        if self._gain(best) <= LEAST_GAIN:  # what was left of the effort did not reach so far again
            self._board.take_back(mark)
            return False
        placed = {job.name for draft in self._board.drafts.values() for job in draft.jobs}
        self._waiting += best.leaving
        self._waiting = [job for job in self._waiting if job.name not in placed]
        return True

    def _gain(self, step: _Step) -> float:
        """Take the step and give places that it makes to waiting jobs; return what is gained."""
        before = self._board.value
        changed = []
        for draft, jobs in sorted(step.members, key=lambda each: _width(each[1])):
            if not jobs:
                self._board.remove(draft.name)
            elif (new := self._with_members(draft, jobs)) is not None:
                self._board.put(new)
                changed.append(new.name)
            else:
                return 0.0
        self._fill(changed, step)
        return self._board.value - before if self._is_fair(changed, step.leaving) else 0.0

    def _is_fair(self, changed: Sequence[str], leaving: Sequence[Job]) -> bool:
        """Whether who has no place now may lose it, and to those who have one now."""
        here = {job.name for name in changed for job in self._board.drafts[name].jobs}
        out = [job for job in leaving if job.name not in here]
        into = [job.priority for job in self._waiting if job.name in here]
        return all(
            job.name not in self._kept and all(each >= job.priority for each in into) for job in out
        )

    def _fill(self, changed: list[str], step: _Step) -> None:
        """Give places that a step made to jobs that wait: free slots first, then the best ones.

        Of free slots those that need fewest get theirs first, since every job counts alike.
        """
        here = {job.name for _, jobs in step.members for job in jobs}
        left = [job for job in self._waiting if job.name not in here]
        left += [job for job in step.leaving if job.name not in here]
        left.sort(key=lambda job: (-job.priority, job.workers))
        for job in list(left):
            if (alone := self._board.alone(job)) is not None:
                self._board.put(alone)
                changed.append(alone.name)
                left.remove(job)
        while left:
            best: tuple[Draft, Job] | None = None
            best_gain = -RUNNING_COUNTS
            for job in left:
                names = dict.fromkeys(changed)
                if next(self._board.free_for(job), None) is not None:
                    few = islice(self._board.drafts.values(), self._looked_at)
                    names |= dict.fromkeys(d.name for d in few if len(d.slots) < job.workers)
                for name in names:
                    old = self._board.drafts[name]
                    most = self._most(old, (*old.jobs, job))
                    if most - old.speed <= best_gain or self._board.judged > self._last:
                        continue
                    new = self._with_members(old, (*old.jobs, job))
                    if new is not None and new.speed - old.speed > best_gain:
                        best, best_gain = (new, job), new.speed - old.speed
            if best is None:
                return
            self._board.put(best[0])
            changed.append(best[0].name)
            left.remove(best[1])

    def _most(self, draft: Draft, jobs: Sequence[Job]) -> float:
        """Return a bound of the group's speed with other members; 0 where rules forbid it."""
        if len(jobs) > LARGEST_GROUP or why_not_together(jobs) is not None:
            return 0.0
        loads = [self._board.loads.of(job, draft.slots) for job in jobs]
        return most_speed(loads, self._board.link)

    def _with_members(self, draft: Draft, jobs: tuple[Job, ...]) -> Draft | None:
        """Return the group with other members; None where they cannot be together there."""
        slots = draft.slots
        widest = max(jobs, key=lambda job: job.workers)
        if (missing := widest.workers - len(slots)) > 0:
            slots = (*slots, *islice(self._board.free_for(widest), missing))
        for job in jobs:
            its_slots = slots[: job.workers]
            if len(its_slots) < job.workers:
                return None
            if job not in draft.jobs and (
                closed(its_slots) or not all(fits(job, slot) for slot in its_slots)
            ):
                return None
        new = self._board.draft(draft.name, slots, jobs, draft.correction)
        too_slow = len(jobs) > 1 and new.speed < 1 + WORTHWHILE_GAIN
        return None if new.judgement.refusal is not None or too_slow else new

    def _steps(self) -> Iterator[_Step]:
        fresh: list[Draft] = []
        others: list[Draft] = []
        for draft in self._board.drafts.values():
            started = all(job.current_group for job in draft.jobs)
            (others if started else fresh).append(draft)
        drafts = [*fresh, *others][: self._looked_at] if fresh else []
        movable = [
            (draft, job) for draft in drafts for job in draft.jobs if job.current_group is None
        ][: self._looked_at]
        for at, (source, job) in enumerate(movable):
            rest = _without(source, job)
            for target in drafts:
                if target is not source and len(target.jobs) < LARGEST_GROUP:
                    yield from self._step((source, rest), (target, (*target.jobs, job)))
            for later, (target, other) in enumerate(movable):
                if target is source:
                    continue
                theirs = (*_without(target, other), job)
                if later > at:
                    yield from self._step((source, (*rest, other)), (target, theirs))
                if other.name not in self._kept:
                    yield from self._step((source, rest), (target, theirs), leaving=(other,))
            if self._waiting or next(self._board.free_for(job), None) is not None:
                yield from self._step((source, rest), leaving=(job,))
            if job.name not in self._kept:
                for other in self._waiting:
                    yield from self._step((source, (*rest, other)), leaving=(job,))
        for source in drafts:
            yield from self._ends(source, drafts)
        for target in drafts:
            for pair in combinations(self._waiting[:LEAST_LOOKED_AT], 2):
                yield from self._step((target, (*target.jobs, *pair)))

    def _ends(self, source: Draft, targets: Sequence[Draft]) -> Iterator[_Step]:
        """Yield the steps that end a group nobody of which has started."""
        if any(job.current_group is not None for job in source.jobs):
            return
        kept = [job for job in source.jobs if job.name in self._kept]
        others = tuple(job for job in source.jobs if job.name not in self._kept)
        if not kept and self._waiting:
            yield from self._step((source, ()), leaving=others)
            for pair in combinations(self._waiting[:LEAST_LOOKED_AT], 2):
                yield from self._step((source, pair), leaving=others)
        if len(kept) != 1 or not others:
            return
        for target in targets:
            if target is source:
                continue
            yield from self._step((source, ()), (target, (*target.jobs, *kept)), leaving=others)
            for out in target.jobs:
                if out.current_group is None and out.name not in self._kept:
                    theirs = (*_without(target, out), *kept)
                    yield from self._step((source, ()), (target, theirs), leaving=(*others, out))

    def _step(
        self, *members: tuple[Draft, tuple[Job, ...]], leaving: tuple[Job, ...] = ()
    ) -> Iterator[_Step]:
        """Yield the step, if the rules allow it and it may gain anything."""
        bound = _ROOM_FOR_ONE_MORE if self._waiting else 0.0
        bound += (1 + RUNNING_COUNTS) * min(len(leaving), 2)
        for draft, jobs in members:
            most = self._most(draft, jobs) if jobs else 0.0
            if jobs and not most:
                return
            bound += most + RUNNING_COUNTS * len(jobs) - draft.value
            if self._waiting:
                bound += (1 + RUNNING_COUNTS) * max(0, len(draft.slots) - _width(jobs))
        if bound > LEAST_GAIN:
            yield _Step(bound, members, leaving)


def _without(draft: Draft, job: Job) -> tuple[Job, ...]:
    return tuple(other for other in draft.jobs if other is not job)


def _width(jobs: Sequence[Job]) -> int:
    return max((job.workers for job in jobs), default=0)
