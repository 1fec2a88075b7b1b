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
"""Of those that have not started: the first with a place, and the first without."""
JUDGEMENTS: Final = 1500
"""Of groups of several jobs, in one plan: then it is good enough."""
_ROOM_FOR_ONE_MORE: Final = 0.5
"""What a step may gain besides, where jobs wait that could join a changed group."""


def improve(board: Board, waiting: Sequence[Job], kept: Collection[str]) -> None:
    """Take the steps that gain most, until none is left. Jobs that are `kept` stay placed."""
    search = _Search(board, waiting, kept)
    while search.take_best_step():
        pass


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
        self._last = board.judged + JUDGEMENTS

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
        here = {job.name for _, jobs in step.members for job in jobs}
        others = [job for job in self._waiting if job.name not in here]
        for job in [*others, *([step.leaving] if step.leaving else [])]:
            if (place := self._board.alone(job) or self._best_of(changed, job)) is not None:
                self._board.put(place)
                changed.append(place.name)
        return self._board.value - before

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

    def _best_of(self, names: Sequence[str], job: Job) -> Draft | None:
        """Return which of the changed groups gains most by one more member, with it."""
        best, best_gain = None, -RUNNING_COUNTS
        for name in dict.fromkeys(names):
            old = self._board.drafts[name]
            if len(old.jobs) >= LARGEST_GROUP:
                continue
            new = self._with_members(old, (*old.jobs, job))
            if new is not None and new.speed - old.speed > best_gain:
                best, best_gain = new, new.speed - old.speed
        return best

    def _steps(self) -> Iterator[_Step]:
        drafts = list(self._board.drafts.values())
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
            for other in self._waiting if job.name not in self._kept else ():
                if other.priority >= job.priority:
                    yield from self._step((source, (*rest, other)), leaving=job)

    def _step(
        self, *members: tuple[Draft, tuple[Job, ...]], leaving: Job | None = None
    ) -> Iterator[_Step]:
        """Yield the step, if the rules allow it and it may gain anything."""
        bound = 0.0
        for draft, jobs in members:
            if jobs and why_not_together(jobs) is not None:
                return
            loads = [self._board.load(job, draft.slots) for job in jobs]
            bound += most_speed(loads, self._board.link) + RUNNING_COUNTS * len(jobs) - draft.value
            if self._waiting:
                bound += (1 + RUNNING_COUNTS) * max(0, len(draft.slots) - _width(jobs))
        if self._waiting:
            bound += _ROOM_FOR_ONE_MORE
        if bound > LEAST_GAIN:
            yield _Step(bound, members, leaving)


def _width(jobs: Sequence[Job]) -> int:
    return max((job.workers for job in jobs), default=0)
