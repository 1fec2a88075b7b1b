"""The groups of a plan in the making, and the slots that nobody holds.

A draft is a group with its judgement. The board keeps drafts and free slots consistent, so a
slot is never in two groups, and finds places for jobs without going through all of them.
"""

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import merge
from itertools import count, islice

from harmony_planner import memory, wording
from harmony_planner.grouping import WORTHWHILE_GAIN, Judgement, judge
from harmony_planner.performance import Link
from harmony_planner.snapshot import Job, Slot, Snapshot


@dataclass(frozen=True)
class Draft:
    """A group in the making."""

    name: str
    slots: tuple[Slot, ...]
    jobs: tuple[Job, ...]
    correction: float
    judgement: Judgement

    @property
    def speed(self) -> float:
        """Total speed of the members; meaningful where they may share."""
        return self.judgement.speed


class Board:
    """Drafts by name, and the free slots."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.link = Link(snapshot.network, snapshot.servers_share_core)
        self._positions = {slot.name: at for at, slot in enumerate(snapshot.slots)}
        self._slots = snapshot.slots
        self._drafts: dict[str, Draft] = {}
        self._free: dict[tuple[int, int | None], list[int]] = {}
        """Positions of open free slots, by GPUs and memory: what decides whether a job fits."""
        self._held: set[str] = set()
        for slot in snapshot.slots:
            self._release(slot)
        taken = {group.name for group in snapshot.groups}
        self._names = (name for n in count(1) if (name := f"group-{n}") not in taken)
        self._next_name = next(self._names)

    @property
    def drafts(self) -> Mapping[str, Draft]:
        """The groups as they are now, by name."""
        return self._drafts

    def put(self, draft: Draft) -> None:
        """Add a group, or replace the one of its name. Its new slots must be free."""
        old = self._drafts.get(draft.name)
        for slot in old.slots if old else ():
            self._release(slot)
        for slot in draft.slots:
            self._take(slot)
        self._drafts[draft.name] = draft
        if draft.name == self._next_name:
            self._next_name = next(self._names)

    def remove(self, name: str) -> None:
        """Take a group away; its slots are free then."""
        for slot in self._drafts.pop(name).slots:
            self._release(slot)

    def draft(
        self,
        name: str,
        slots: Sequence[Slot],
        jobs: tuple[Job, ...],
        correction: float = 1.0,
        *,
        running: bool = False,
    ) -> Draft:
        """Return a judged group on as many of the slots as its widest job needs."""
        needed = tuple(slots[: max(job.workers for job in jobs)])
        judgement = judge(jobs, needed, self.link, correction_factor=correction, running=running)
        return Draft(name, needed, jobs, correction, judgement)

    def alone(self, job: Job) -> Draft | None:
        """Return a new group of this job on free slots; None where there are too few."""
        slots = tuple(islice(self.free_for(job), job.workers))
        return self.alone_on(slots, job) if len(slots) == job.workers else None

    def alone_on(self, slots: Sequence[Slot], job: Job) -> Draft:
        """Return a new group of this job on the first of the slots, of which there are enough."""
        return self.draft(self._next_name, slots, (job,))

    def joined(self, draft: Draft, job: Job) -> Draft | None:
        """Return the group with one more member; None where it has too few slots for it."""
        slots = draft.slots
        if (missing := job.workers - len(slots)) > 0:
            slots = (*slots, *islice(self.free_for(job), missing))
        its_slots = slots[: job.workers]
        if len(its_slots) < job.workers or not all(fits(job, slot) for slot in its_slots):
            return None
        return self.draft(draft.name, slots, (*draft.jobs, job), draft.correction)

    def free_for(self, job: Job) -> Iterator[Slot]:
        """Yield the free slots in which the job may begin a group, in their order."""
        return (slot for slot in self._free_of_its_size(job) if accepts(job, slot))

    def barred_for(self, job: Job) -> Iterator[Slot]:
        """Yield the other free slots of its size, on whose nodes it may not begin."""
        return (slot for slot in self._free_of_its_size(job) if not accepts(job, slot))

    def is_free(self, slot: Slot) -> bool:
        """Whether no group holds the slot, closed or not."""
        return slot.name not in self._held

    def _free_of_its_size(self, job: Job) -> Iterator[Slot]:
        fitting = [
            positions
            for positions in self._free.values()
            if positions and _has_its_size(job, self._slots[positions[0]])
        ]
        return (self._slots[at] for at in merge(*fitting))

    def _release(self, slot: Slot) -> None:
        self._held.discard(slot.name)
        if slot.closed is None:
            insort(self._free.setdefault(_shape(slot), []), self._positions[slot.name])

    def _take(self, slot: Slot) -> None:
        self._held.add(slot.name)
        if slot.closed is None:
            free = self._free[_shape(slot)]
            del free[bisect_left(free, self._positions[slot.name])]


def fits(job: Job, slot: Slot) -> bool:
    """Whether one of the job's workers can begin on the slot when it is alone there."""
    return accepts(job, slot) and _holds(job, slot)


def begins_on(job: Job, slot: Slot) -> bool:
    """Whether the job may begin a group there: with none of the slot's GPUs left idle."""
    return accepts(job, slot) and _has_its_size(job, slot)


def accepts(job: Job, slot: Slot) -> bool:
    """Whether the job's workers may begin on the slot's node."""
    return slot.node not in job.barred and slot.node not in job.unschedulable


def closed(slots: Sequence[Slot]) -> str | None:
    """Say why nobody new may use all of the slots, or None where anybody may."""
    return next((slot.closed for slot in slots if slot.closed is not None), None)


def not_worthwhile(draft: Draft, old: Draft) -> str | None:
    """Say why a job should not join a group that it may join."""
    joining = draft.jobs[-1].name
    others = wording.names([job.name for job in old.jobs])
    if draft.speed < 1 + WORTHWHILE_GAIN:
        return (
            f"{joining} would run with {others} at {draft.speed:.2f} of the speed "
            "of one after the other, too little to gain"
        )
    if draft.speed < old.speed * (1 - WORTHWHILE_GAIN):
        return (
            f"{joining} would lower the total speed of {others} "
            f"from {old.speed:.2f} to {draft.speed:.2f} jobs at a time"
        )
    return None


def _has_its_size(job: Job, slot: Slot) -> bool:
    return job.gpus_per_worker == slot.gpus and _holds(job, slot)


def _holds(job: Job, slot: Slot) -> bool:
    kind = (job.gpus_per_worker > 0) == (slot.gpus > 0)
    enough = job.gpus_per_worker <= slot.gpus
    return kind and enough and memory.why_it_does_not_fit([job], slot) is None


def _shape(slot: Slot) -> tuple[int, int | None]:
    return slot.gpus, slot.memory_bytes
