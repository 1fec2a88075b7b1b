"""Better groups for jobs that have not started: places changed, and members exchanged.

Jobs take their places one at a time, so an early choice can be in the way of a better plan. As
long as a job has no workers, another place costs nothing. The value of a plan is the total
speed of its groups and a little for each job that runs; a step is taken when it raises that,
and jobs that have slots whether or not anybody shares never lose their place.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
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
JOBS_LOOKED_AT: Final = 40
"""Of those that wait."""
GROUPS_LOOKED_AT: Final = 64
MOST_JUDGED: Final = 2000
"""Workers in groups that are judged, in one plan: then it is good enough."""
LEAST_JUDGED: Final = 16
"""The same, where there are so many jobs that a few steps matter little."""
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
    leaving: Job | None = None
    """Who has no place then, unless another one is found."""


class _Search:
    def __init__(self, board: Board, waiting: Sequence[Job], kept: Collection[str]) -> None:
        self._board = board
        self._waiting = [*waiting[:JOBS_LOOKED_AT]]
        self._kept = kept
        jobs = len(waiting) + sum(len(draft.jobs) for draft in board.drafts.values())
        self._last = board.judged + max(
            LEAST_JUDGED, min(MOST_JUDGED, 100 * MOST_JUDGED // (jobs + 1))
        )

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
        self._gain(best)
        placed = {job.name for draft in self._board.drafts.values() for job in draft.jobs}
        if best.leaving is not None:
            self._waiting.append(best.leaving)
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
        gain = self._board.value - before
        if step.leaving is None or step.leaving.name not in self._kept:
            return gain
        names = {job.name for name in changed for job in self._board.drafts[name].jobs}
        return gain if step.leaving.name in names else 0.0

    def _fill(self, changed: list[str], step: _Step) -> None:
        """Give places that a step made to jobs that wait: free slots first, then the best ones."""
        here = {job.name for _, jobs in step.members for job in jobs}
        left = [job for job in self._waiting if job.name not in here]
        left += [step.leaving] if step.leaving is not None else []
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
                    few = islice(self._board.drafts.values(), GROUPS_LOOKED_AT)
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
        drafts = [*fresh, *others][:GROUPS_LOOKED_AT] if fresh else []
        movable = [
            (draft, job) for draft in drafts for job in draft.jobs if job.current_group is None
        ][:JOBS_LOOKED_AT]
        for at, (source, job) in enumerate(movable):
            rest = tuple(other for other in source.jobs if other is not job)
            for target in drafts:
                if target is not source and len(target.jobs) < LARGEST_GROUP:
                    yield from self._step((source, rest), (target, (*target.jobs, job)))
            for target, other in movable[at + 1 :]:
                if target is not source:
                    theirs = tuple(each for each in target.jobs if each is not other)
                    yield from self._step((source, (*rest, other)), (target, (*theirs, job)))
            if self._waiting or next(self._board.free_for(job), None) is not None:
                yield from self._step((source, rest), leaving=job)
            if job.name in self._kept:
                continue
            for other in self._waiting:
                if other.priority >= job.priority:
                    yield from self._step((source, (*rest, other)), leaving=job)

    def _step(
        self, *members: tuple[Draft, tuple[Job, ...]], leaving: Job | None = None
    ) -> Iterator[_Step]:
        """Yield the step, if the rules allow it and it may gain anything."""
        bound = _ROOM_FOR_ONE_MORE if self._waiting else 0.0
        bound += 1 + RUNNING_COUNTS if leaving is not None else 0.0
        for draft, jobs in members:
            most = self._most(draft, jobs) if jobs else 0.0
            if jobs and not most:
                return
            bound += most + RUNNING_COUNTS * len(jobs) - draft.value
            if self._waiting:
                bound += (1 + RUNNING_COUNTS) * max(0, len(draft.slots) - _width(jobs))
        if bound > LEAST_GAIN:
            yield _Step(bound, members, leaving)


def _width(jobs: Sequence[Job]) -> int:
    return max((job.workers for job in jobs), default=0)
