"""Who stays where it is: the groups of before, without the members that may not stay.

A move costs a restart of workers, so it needs a reason: a rule, a measurement, a slot that is
gone, or a node that does not let a job's workers run. A job with the last reason alone comes back
when no other place was found for it and nobody else took its slots.
"""

from collections.abc import Mapping, Sequence

from harmony_planner.board import Board
from harmony_planner.draft import Draft
from harmony_planner.fitting import fits
from harmony_planner.snapshot import CurrentGroup, Job, Slot, Snapshot, queue_place


class Staying:
    """The groups of a snapshot, to be put on a board."""

    def __init__(self, snapshot: Snapshot, board: Board, slots: Mapping[str, Slot]) -> None:
        """`slots` are those of the snapshot, by name."""
        self._current = {group.name: group for group in snapshot.groups}
        self._slots = slots
        self._board = board

    def keep(self, members: Mapping[str, Sequence[Job]]) -> None:
        """Take over groups that exist, without the members that may not stay.

        `members` are those of each of these groups now, the first in the queue first.
        """
        broken = []
        for current in self._current.values():
            jobs = [j for j in members.get(current.name, ()) if self._may_stay(j, current)]
            if not jobs:
                continue
            names = current.slots[: max(job.workers for job in jobs)]
            found = [self._slots.get(name) for name in names]
            whole = [slot for slot in found if slot is not None]
            if len(whole) == len(found):
                self._keep(current, whole, jobs)
            elif whole:
                broken.append((current, found, jobs))
        for current, found, jobs in broken:
            if (mended := self._mended(found, jobs)) is not None:
                self._keep(current, mended, jobs)

    def where_it_was(self, job: Job) -> Draft | None:
        """Return the group of a job with no other place, if nobody else took its slots."""
        current = self._current.get(job.current_group or "")
        slots = [self._slots.get(name) for name in current.slots] if current is not None else []
        its_slots = [slot for slot in slots[: job.workers] if slot is not None]
        if current is None or len(its_slots) < job.workers:
            return None
        draft = self._board.drafts.get(current.name)
        there = draft.slots if draft is not None else ()
        if any(one.name != other.name for one, other in zip(there, its_slots, strict=False)):
            return None
        if not all(map(self._board.is_free, its_slots[len(there) :])):
            return None
        jobs = tuple(sorted((*(draft.jobs if draft is not None else ()), job), key=queue_place))
        again = self._board.draft(
            current.name,
            max(there, its_slots, key=len),
            jobs,
            current.correction,
            running=all(one.current_group == current.name for one in jobs),
        )
        return again if again.judgement.refusal is None else None

    def _may_stay(self, job: Job, current: CurrentGroup) -> bool:
        """Whether the job has slots there, and its workers are not kept from running on them."""
        slots = (self._slots.get(name) for name in current.slots[: job.workers])
        stuck = any(slot is not None and slot.node in job.unschedulable for slot in slots)
        return job.workers <= len(current.slots) and not stuck

    def _keep(self, current: CurrentGroup, slots: Sequence[Slot], jobs: Sequence[Job]) -> None:
        """Keep a group with as many of the jobs as may stay, the first in the queue first."""
        if not all(map(self._board.is_free, slots)):
            return
        together = self._kept(current, slots, tuple(jobs))
        if together.judgement.refusal is None:
            self._board.put(together)
            return
        kept: Draft | None = None
        for job in jobs:
            draft = self._kept(current, slots, (*kept.jobs, job) if kept else (job,))
            if draft.judgement.refusal is None:
                kept = draft
        if kept is not None:
            self._board.put(kept)

    def _kept(self, current: CurrentGroup, slots: Sequence[Slot], jobs: tuple[Job, ...]) -> Draft:
        return self._board.draft(current.name, slots, jobs, current.correction, running=True)

    def _mended(self, slots: Sequence[Slot | None], jobs: Sequence[Job]) -> list[Slot] | None:
        """Replace the slots that are gone by free ones, so that the other workers can stay.

        CPU slots only: devices are bound to a group's slot for good.
        """
        if any(slot.gpus for slot in slots if slot is not None):
            return None
        widest = max(jobs, key=lambda job: job.workers)
        kept = {slot.name for slot in slots if slot is not None}
        free = (
            slot
            for slot in self._board.free_for(widest)
            if slot.name not in kept and all(fits(job, slot) for job in jobs)
        )
        mended = [slot if slot is not None else next(free, None) for slot in slots]
        found = [slot for slot in mended if slot is not None]
        return found if len(found) == len(slots) else None
