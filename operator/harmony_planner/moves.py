"""Moves of running jobs: one at a time, and only where the gain pays for a restart.

A job leaves a group with others for free slots or for another group. In a large cluster only
groups that this plan has changed are looked at, unless slots are free.
"""

from heapq import nsmallest
from typing import TYPE_CHECKING, Final

from harmony_planner.board import Board
from harmony_planner.grouping import WORTHWHILE_GAIN
from harmony_planner.places import FEW_GROUPS, GROUPS_LOOKED_AT, LEAST_LOOKED_AT, best_place

if TYPE_CHECKING:
    from harmony_planner.draft import Draft

SOURCES_LOOKED_AT: Final = 16
"""Of the groups out of which a job could move, the slowest ones."""


def make_best_move(board: Board) -> bool:
    """Move the one job that gains most by it, if any gains enough; say whether one did."""
    best_gain = WORTHWHILE_GAIN
    best: tuple[Draft, Draft] | None = None
    few = len(board.drafts) <= FEW_GROUPS or board.has_free()
    sources = [
        draft
        for draft in (board.drafts.values() if few else board.changed())
        if len(draft.jobs) > 1 and any(job.current_group == draft.name for job in draft.jobs)
    ]
    if not sources:
        return False
    slowest = min(draft.speed for draft in board.drafts.values())
    looked_at = GROUPS_LOOKED_AT
    if len(sources) > SOURCES_LOOKED_AT:
        sources = nsmallest(SOURCES_LOOKED_AT, sources, key=lambda draft: draft.speed)
        looked_at = LEAST_LOOKED_AT
    for source in sources:
        for job in source.jobs:
            if job.current_group != source.name:
                continue
            left = board.without(source, job)
            assert left is not None
            least = 0.0 if next(board.free_for(job), None) else slowest
            most = (left.speed + least + 1) / (source.speed + least) - 1
            if left.judgement.refusal is not None or most <= best_gain:
                continue
            mark = board.mark()
            board.put(left)
            target = board.alone(job)
            if target is None:
                target, _ = best_place(job, board, looked_at=looked_at)
            old = board.drafts.get(target.name) if target is not None else None
            board.take_back(mark)
            if target is None or target.name == source.name:
                continue
            speed_before = source.speed + (old.speed if old else 0.0)
            gain = (left.speed + target.speed) / speed_before - 1
            if gain > best_gain:
                best_gain = gain
                best = left, target
    for draft in best or ():
        board.put(draft)
    return best is not None
