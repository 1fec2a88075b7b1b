"""Where a job joins others: the group whose total speed it raises most."""

from collections.abc import Iterable
from itertools import islice
from typing import Final

from harmony_planner.board import Board, not_worthwhile
from harmony_planner.draft import Draft
from harmony_planner.fitting import closed, fits
from harmony_planner.grouping import why_no_memory, why_not_together
from harmony_planner.snapshot import Job

GROUPS_LOOKED_AT: Final = 8
"""Of the groups that a job may join, so many are predicted: those that promise most."""
LEAST_LOOKED_AT: Final = 1
"""The same where many jobs are looking."""
FEW_GROUPS: Final = 64
"""Where no more have changed, jobs that waited already are offered those only."""
GROUPS_NAMED: Final = 8
"""Of the groups that the rules forbid, so many are looked at for the words."""


def best_place(
    job: Job, board: Board, groups: Iterable[Draft] | None = None, *, looked_at: int
) -> tuple[Draft | None, list[str]]:
    """Return the group as it would be with the job where it gains most, or what refused it.

    Of `groups` (all by default) the first `looked_at` are predicted: those that promise most.
    """
    best: Draft | None = None
    best_gain = 0.0
    refusals: list[str] = []
    for old in islice(board.promising(job, groups), looked_at):
        draft = board.joined(old, job)
        if draft is None:
            continue
        refusal = draft.judgement.refusal or not_worthwhile(draft, old)
        if refusal is not None:
            refusals.append(refusal)
        elif best is None or draft.speed - old.speed > best_gain + 1e-9:
            best, best_gain = draft, draft.speed - old.speed
    return best, refusals


def rules_against(job: Job, board: Board) -> list[str]:
    """Say why the rules forbid the groups that the job cannot join, whatever their speed."""
    refusals: list[str] = []
    for draft in islice(board.drafts.values(), GROUPS_NAMED):
        its_slots = draft.slots[: job.workers]
        if all(fits(job, slot) for slot in its_slots):
            together = (*draft.jobs, job)
            refusals += filter(
                None,
                [
                    closed(its_slots)
                    or why_not_together(together)
                    or why_no_memory(together, its_slots)
                ],
            )
    return refusals
