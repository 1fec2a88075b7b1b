"""The groups of a plan in the making, and the slots that nobody holds.

A draft is a group with its judgement. The board keeps drafts and free slots consistent, so a
slot is never in two groups, and finds places for jobs without going through all of them. What
was changed since a mark can be taken back.
"""

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from heapq import merge
from itertools import islice

from harmony_planner import wording
from harmony_planner.candidates import Candidates
from harmony_planner.draft import Draft
from harmony_planner.fitting import accepts, fits, has_its_size
from harmony_planner.grouping import (
    RUNNING_COUNTS,
    WORTHWHILE_GAIN,
    Loads,
    judge,
    workers_on_one_node,
)
from harmony_planner.performance import Link
from harmony_planner.snapshot import Job, Slot, Snapshot


class Board:
    """Drafts by name, and the free slots."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.link = Link(snapshot.network, snapshot.servers_share_core)
        self.judged = 0
        """Workers in groups of several jobs that were judged: what takes the time of a plan."""
        self._positions = {slot.name: at for at, slot in enumerate(snapshot.slots)}
        self._slots = snapshot.slots
        self._drafts: dict[str, Draft] = {}
        self.loads = Loads(self.link)
        self._candidates = Candidates(self.loads)
        self._free: dict[tuple[int, int | None], list[int]] = {}
        """Positions of open free slots, by GPUs and memory: what decides whether a job fits."""
        self._held: set[str] = set()
        for at, slot in enumerate(snapshot.slots):
            if slot.closed is None:
                self._free.setdefault(_shape(slot), []).append(at)
        self._priorities = Counter[int]()
        """Of the jobs in drafts."""
        self._taken = {group.name for group in snapshot.groups}
        self._last_name = 0
        self._kept_free: list[Slot] = []
        """Free slots that nobody gets for now."""
        self.value = 0.0
        """Of all drafts together."""
        self._journal: list[tuple[str, Draft | None]] = []

    @property
    def drafts(self) -> Mapping[str, Draft]:
        """The groups as they are now, by name."""
        return self._drafts

    def put(self, draft: Draft) -> None:
        """Add a group, or replace the one of its name. Its new slots must be free."""
        old = self._drafts.get(draft.name)
        self._journal.append((draft.name, old))
        if old is not None:
            self._forget(old)
        self._add(draft)

    def remove(self, name: str) -> None:
        """Take a group away; its slots are free then."""
        old = self._drafts.pop(name)
        self._journal.append((name, old))
        self._forget(old)

    def go_on(self, snapshot: Snapshot) -> None:
        """Begin the next plan, with the same slots, from the groups of this one."""
        self._taken = {group.name for group in snapshot.groups}
        self.give_up_kept()
        self._journal.clear()
        self.judged = 0

    def keep_free(self, job: Job) -> int:
        """Keep the free slots in which the job may begin; return how many there are."""
        slots = list(islice(self.free_for(job), job.workers))
        for slot in slots:
            self._take(slot)
        self._kept_free += slots
        return len(slots)

    def give_up_kept(self) -> None:
        """Offer the slots again that were kept free."""
        for slot in self._kept_free:
            self._release(slot)
        self._kept_free.clear()

    def changes(self) -> Sequence[tuple[str, Draft | None]]:
        """Return what was put or removed in this plan: names, with what was there before."""
        return self._journal

    def changed(self) -> list[Draft]:
        """Return the groups whose members or slots are others than before this plan."""
        before: dict[str, Draft | None] = {}
        for name, old in self._journal:
            before.setdefault(name, old)
        return [
            draft
            for name, old in before.items()
            if (draft := self._drafts.get(name)) is not None and not draft.is_alike(old)
        ]

    def mark(self) -> int:
        """Return what `take_back` needs to bring this moment back."""
        return len(self._journal)

    def take_back(self, mark: int) -> None:
        """Undo all that was put and removed since the mark."""
        before: dict[str, Draft | None] = {}
        for name, old in self._journal[mark:]:
            before.setdefault(name, old)
        changed = [name for name, old in before.items() if self._drafts.get(name) is not old]
        for name in changed:
            if name in self._drafts:
                self._forget(self._drafts[name])
        for name in changed:
            if (old := before[name]) is not None:
                self._add(old)
            else:
                del self._drafts[name]
        del self._journal[mark:]

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
        if len(jobs) > 1:
            self.judged += sum(workers_on_one_node(job, needed) for job in jobs)
        judgement = judge(jobs, needed, self.link, correction_factor=correction, running=running)
        loads = tuple(self.loads.of(job, needed) for job in jobs)
        return Draft(name, needed, jobs, correction, judgement, loads)

    def alone(self, job: Job) -> Draft | None:
        """Return a new group of this job on free slots; None where there are too few."""
        slots = tuple(islice(self.free_for(job), job.workers))
        return self.alone_on(slots, job) if len(slots) == job.workers else None

    def alone_on(self, slots: Sequence[Slot], job: Job) -> Draft:
        """Return a new group of this job on the first of the slots, of which there are enough."""
        while (name := f"group-{self._last_name + 1}") in self._drafts or name in self._taken:
            self._last_name += 1
        return self.draft(name, slots, (job,))

    def joined(self, draft: Draft, job: Job) -> Draft | None:
        """Return the group with one more member; None where it has too few slots for it."""
        slots = draft.slots
        if (missing := job.workers - len(slots)) > 0:
            slots = (*slots, *islice(self.free_for(job), missing))
        its_slots = slots[: job.workers]
        if len(its_slots) < job.workers or not all(fits(job, slot) for slot in its_slots):
            return None
        return self.draft(draft.name, slots, (*draft.jobs, job), draft.correction)

    def without(self, draft: Draft, job: Job) -> Draft | None:
        """Return the group without one of its members; None where nobody is left."""
        rest = tuple(other for other in draft.jobs if other is not job)
        return self.draft(draft.name, draft.slots, rest, draft.correction) if rest else None

    def promising(self, job: Job, groups: Iterable[Draft] | None = None) -> Iterator[Draft]:
        """Yield the groups that the rules let the job join, those that may gain most first.

        Of all groups, where none are given.
        """
        if groups is None:
            return self._candidates.promising(job)
        return iter(self._candidates.best_first(job, groups))

    def most_gain(self, job: Job, groups: Iterable[Draft]) -> float | None:
        """Return how much one of the groups may gain by the job; None where it can join none."""
        return self._candidates.most_gain(job, groups)

    def has_lower(self, priority: int) -> bool:
        """Whether any job with a place has a lower priority."""
        return any(each < priority for each, many in self._priorities.items() if many)

    def free_for(self, job: Job) -> Iterator[Slot]:
        """Yield the free slots in which the job may begin a group, in their order."""
        return (slot for slot in self._free_of_its_size(job) if accepts(job, slot))

    def barred_for(self, job: Job) -> Iterator[Slot]:
        """Yield the other free slots of its size, on whose nodes it may not begin."""
        return (slot for slot in self._free_of_its_size(job) if not accepts(job, slot))

    def has_free(self) -> bool:
        """Whether any open slot is free."""
        return any(self._free.values())

    def is_free(self, slot: Slot) -> bool:
        """Whether no group holds the slot, closed or not."""
        return slot.name not in self._held

    def _free_of_its_size(self, job: Job) -> Iterator[Slot]:
        fitting = [
            positions
            for positions in self._free.values()
            if positions and has_its_size(job, self._slots[positions[0]])
        ]
        if len(fitting) == 1:
            return (self._slots[at] for at in fitting[0])
        return (self._slots[at] for at in merge(*fitting))

    def _add(self, draft: Draft) -> None:
        for slot in draft.slots:
            self._take(slot)
        self._drafts[draft.name] = draft
        self.value += draft.value
        self._candidates.add(draft)
        self._priorities.update(job.priority for job in draft.jobs)

    def _forget(self, draft: Draft) -> None:
        self.value -= draft.value
        for slot in draft.slots:
            self._release(slot)
        self._candidates.remove(draft)
        self._priorities.subtract(job.priority for job in draft.jobs)

    def _release(self, slot: Slot) -> None:
        self._held.discard(slot.name)
        if slot.closed is None:
            insort(self._free.setdefault(_shape(slot), []), self._positions[slot.name])

    def _take(self, slot: Slot) -> None:
        self._held.add(slot.name)
        if slot.closed is None:
            free = self._free[_shape(slot)]
            del free[bisect_left(free, self._positions[slot.name])]


def not_worthwhile(draft: Draft, old: Draft) -> str | None:
    """Say why a job should not join a group that it may join."""
    joining = draft.jobs[-1].name
    others = wording.names([job.name for job in old.jobs])
    if draft.speed < 1 + WORTHWHILE_GAIN:
        return (
            f"{joining} would run with {others} at {draft.speed:.2f} of the speed "
            "of one after the other, too little to gain"
        )
    if draft.speed < old.speed - RUNNING_COUNTS:
        return (
            f"{joining} would lower the total speed of {others} "
            f"from {old.speed:.2f} to {draft.speed:.2f} jobs at a time"
        )
    return None


def _shape(slot: Slot) -> tuple[int, int | None]:
    return slot.gpus, slot.memory_bytes
