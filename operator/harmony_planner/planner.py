"""The planner: from a snapshot to a plan, as a pure function.

Running jobs stay where they are unless a rule or a measurement forbids it, or another place
gains enough to pay for restarting their workers. Then every other job, in the order of
submission, takes the place that gains most: free slots of its own, or the group whose total
speed it raises most. What finds no place waits, and the plan says why.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from harmony_planner import memory, wording
from harmony_planner.grouping import WORTHWHILE_GAIN, Judgement, judge
from harmony_planner.performance import Link
from harmony_planner.snapshot import Group, Job, Member, Plan, Slot, Snapshot, Waiting


def plan(snapshot: Snapshot) -> Plan:
    """Return where every job of the snapshot goes, or why it waits."""
    return _Planning(snapshot).plan()


@dataclass(frozen=True)
class _Draft:
    """A group in the making."""

    name: str
    slots: tuple[Slot, ...]
    jobs: tuple[Job, ...]
    correction: float
    judgement: Judgement

    @property
    def speed(self) -> float:
        return self.judgement.speed


class _Planning:
    """One pass of the planner over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._link = Link(snapshot.network, snapshot.servers_share_core)
        self._queue = sorted(snapshot.jobs, key=lambda job: (job.submitted, job.name))
        self._drafts: dict[str, _Draft] = {}

    def plan(self) -> Plan:
        self._keep_current_groups()
        waiting = self._place_the_rest()
        for _ in self._queue:
            if not self._make_best_move():
                break
            waiting = self._place_the_rest()
        return Plan(
            groups=tuple(_finished(draft) for draft in self._drafts.values()),
            waiting=tuple(Waiting(job=job, reason=reason) for job, reason in waiting.items()),
        )

    # ---- steps

    def _keep_current_groups(self) -> None:
        """Take over the groups that exist, without the members that may not stay."""
        slots = {slot.name: slot for slot in self._snapshot.slots}
        for current in self._snapshot.groups:
            if not slots.keys() >= set(current.slots):
                continue
            kept: _Draft | None = None
            for job in self._queue:
                if job.current_group != current.name or job.workers > len(current.slots):
                    continue
                its_slots = tuple(slots[name] for name in current.slots)
                jobs = (*kept.jobs, job) if kept else (job,)
                draft = self._draft(current.name, its_slots, jobs, current.correction, running=True)
                if draft.judgement.refusal is None:
                    kept = draft
            if kept is not None:
                self._drafts[current.name] = kept

    def _place_the_rest(self) -> dict[str, str]:
        """Give places to the jobs that have none; return why the others wait, by job."""
        waiting: dict[str, str] = {}
        placed = {job.name for draft in self._drafts.values() for job in draft.jobs}
        for job in self._queue:
            if job.name in placed:
                continue
            best, refusals = self._best_place(job)
            if best is not None:
                self._drafts[best.name] = best
            else:
                waiting[job.name] = wording.waiting_reason(job, self._snapshot.slots, refusals)
        return waiting

    def _make_best_move(self) -> bool:
        """Move the one job that gains most by it, if any gains enough; say whether one did."""
        best_gain = WORTHWHILE_GAIN
        best_drafts: dict[str, _Draft] | None = None
        before = self._drafts
        for source in before.values():
            for job in source.jobs if len(source.jobs) > 1 else ():
                self._drafts = dict(before)
                rest = tuple(other for other in source.jobs if other is not job)
                left = self._draft(source.name, source.slots, rest, source.correction)
                self._drafts[source.name] = left
                target, _ = self._best_place(job)
                if left.judgement.refusal is not None or target is None:
                    continue
                if target.name == source.name:
                    continue
                old = before.get(target.name)
                speed_before = source.speed + (old.speed if old else 0.0)
                gain = (left.speed + target.speed) / speed_before - 1
                if gain > best_gain:
                    best_gain = gain
                    best_drafts = {**self._drafts, target.name: target}
        self._drafts = best_drafts or before
        return best_drafts is not None

    # ---- places

    def _best_place(self, job: Job) -> tuple[_Draft | None, list[str]]:
        """Return the group as it would be with the job where it gains most, or the refusals."""
        best: _Draft | None = None
        best_gain = 0.0
        refusals: list[str] = []
        for draft in self._places(job):
            old = self._drafts.get(draft.name)
            refusal = draft.judgement.refusal or _not_worthwhile(draft, old)
            if refusal is not None:
                refusals.append(refusal)
                continue
            gain = draft.speed - (old.speed if old else 0.0)
            if best is None or gain > best_gain + 1e-9:
                best, best_gain = draft, gain
        return best, refusals

    def _places(self, job: Job) -> Iterator[_Draft]:
        """Yield every group that the job could be in: a new one, then those that exist."""
        used = {slot.name for draft in self._drafts.values() for slot in draft.slots}
        free = [slot for slot in self._snapshot.slots if slot.name not in used and _fits(job, slot)]
        free.sort(key=lambda slot: slot.gpus)
        if len(free) >= job.workers:
            yield self._draft(self._new_name(), tuple(free), (job,), 1.0)
        for draft in self._drafts.values():
            slots = (*draft.slots, *free)
            if len(slots) >= job.workers and all(_fits(job, s) for s in slots[: job.workers]):
                yield self._draft(draft.name, slots, (*draft.jobs, job), draft.correction)

    def _draft(
        self,
        name: str,
        slots: Sequence[Slot],
        jobs: tuple[Job, ...],
        correction: float,
        *,
        running: bool = False,
    ) -> _Draft:
        """Return a judged group on as many of the slots as its widest job needs."""
        needed = tuple(slots[: max(job.workers for job in jobs)])
        judgement = judge(jobs, needed, self._link, correction_factor=correction, running=running)
        return _Draft(name, needed, jobs, correction, judgement)

    def _new_name(self) -> str:
        taken = self._drafts.keys() | {group.name for group in self._snapshot.groups}
        return next(name for n in count(1) if (name := f"group-{n}") not in taken)


def _fits(job: Job, slot: Slot) -> bool:
    """Whether one of the job's workers can run on the slot when it is alone there."""
    return job.gpus_per_worker <= slot.gpus and memory.why_it_does_not_fit([job], slot) is None


def _not_worthwhile(draft: _Draft, old: _Draft | None) -> str | None:
    """Say why a job should not join a group that may be joined."""
    if old is None:
        return None
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


def _finished(draft: _Draft) -> Group:
    arrangement = draft.judgement.arrangement
    rounds = arrangement.rounds if arrangement is not None else {job.name: 1 for job in draft.jobs}
    by_name = {job.name: job for job in draft.jobs}
    members = []
    for order, (name, turns) in enumerate(rounds.items()):
        job = by_name[name]
        slots = draft.slots[: job.workers]
        members.append(
            Member(
                job=name,
                order=order,
                rounds=turns,
                slots=tuple(slot.name for slot in slots),
                memory_bytes=_share(job, draft, slots),
                reason=wording.member_reason(job, draft.jobs, slots, arrangement),
            )
        )
    return Group(
        name=draft.name,
        slots=tuple(slot.name for slot in draft.slots),
        members=tuple(members),
        prediction=arrangement.prediction if arrangement is not None else None,
    )


def _share(job: Job, draft: _Draft, slots: Sequence[Slot]) -> int | None:
    """Return the least share that the job has on any of its slots."""
    shares = []
    for position, slot in enumerate(slots):
        together = [other for other in draft.jobs if other.workers > position]
        shares.append(memory.shares(together, slot)[job.name])
    return min((share for share in shares if share is not None), default=None)
