"""Whose place a job takes when none is free: jobs of the lowest priority, as few as possible.

Of equally few, those leave that were submitted last. That is the order of kube-scheduler, and
it leaves nobody displaced who would then displace others. A displaced job keeps its servers,
and so its model: it waits for another place.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice
from typing import Final

from harmony_planner.board import Board, not_worthwhile
from harmony_planner.draft import Draft
from harmony_planner.fitting import begins_on, closed, fits
from harmony_planner.snapshot import Job

WAYS_LOOKED_AT: Final = 32
"""Of the ways to make room in one group, so many are judged: the first ones by the rule above."""


@dataclass(frozen=True)
class Room:
    """Room for one job."""

    draft: Draft
    """The job's group: a new one, or what becomes of one whose other members stay."""
    emptied: tuple[str, ...]
    """Groups that end, so that what binds their devices is free only when their workers left."""
    displaced: tuple[Job, ...]


def make_room(job: Job, board: Board) -> Room | None:
    """Return how jobs of lower priority make room for the job; None where they cannot."""
    if not board.has_lower(job.priority):
        return None
    ways = (_in_one_group(job, board), _in_several_groups(job, board))
    return min(filter(None, ways), key=lambda room: _cost(room.displaced), default=None)


def _in_one_group(job: Job, board: Board) -> Room | None:
    """Let some members of one group leave, so that the job can join the others."""
    ways = [
        (leaving, draft)
        for draft in board.drafts.values()
        if closed(draft.slots) is None and all(fits(job, s) for s in draft.slots[: job.workers])
        for leaving in _subsets(_lower(job, draft))
    ]
    ways.sort(key=lambda way: (_cost(way[0]), way[1].name))
    for leaving, draft in islice(ways, WAYS_LOOKED_AT):
        rest = tuple(other for other in draft.jobs if other not in leaving)
        if not rest:
            if len(draft.slots) >= job.workers and begins_on(job, draft.slots[0]):
                return Room(board.alone_on(draft.slots, job), (draft.name,), leaving)
            continue
        left = board.draft(draft.name, draft.slots, rest, draft.correction)
        joined = board.joined(replace(left, slots=draft.slots), job)
        if left.judgement.refusal or joined is None or joined.judgement.refusal:
            continue
        if not_worthwhile(joined, left) is None:
            return Room(joined, (), leaving)
    return None


def _in_several_groups(job: Job, board: Board) -> Room | None:
    """Let whole groups leave, until their slots and the free ones are enough."""
    free = tuple(islice(board.free_for(job), job.workers))
    whole = [
        draft
        for draft in board.drafts.values()
        if len(_lower(job, draft)) == len(draft.jobs)
        and closed(draft.slots) is None
        and all(begins_on(job, slot) for slot in draft.slots)
    ]
    whole.sort(key=lambda draft: (_cost(draft.jobs), draft.name))
    leaving: list[Draft] = []
    missing = job.workers - len(free)
    for draft in whole:
        if missing <= 0:
            break
        leaving.append(draft)
        missing -= len(draft.slots)
    if missing > 0 or not leaving:
        return None
    for draft in list(leaving):
        if missing + len(draft.slots) <= 0:
            leaving.remove(draft)
            missing += len(draft.slots)
    slots = (*chain.from_iterable(draft.slots for draft in leaving), *free)
    displaced = tuple(chain.from_iterable(draft.jobs for draft in leaving))
    return Room(board.alone_on(slots, job), tuple(draft.name for draft in leaving), displaced)


def _lower(job: Job, draft: Draft) -> list[Job]:
    return [other for other in draft.jobs if other.priority < job.priority]


def _subsets(jobs: Sequence[Job]) -> Iterator[tuple[Job, ...]]:
    for size in range(1, len(jobs) + 1):
        yield from combinations(jobs, size)


def _cost(leaving: Sequence[Job]) -> tuple[int, int, list[int], list[int]]:
    """Order ways to make room: of low priority, few, submitted late."""
    priorities = sorted((job.priority for job in leaving), reverse=True)
    late_first = sorted(-job.submitted for job in leaving)
    return priorities[0], len(leaving), priorities, late_first
