"""The planner: from a snapshot to a plan, as a pure function.

Running jobs stay where they are unless a rule or a measurement forbids it, or another place
gains enough to pay for restarting their workers. Then every other job, by priority and then in
the order of submission, takes the place that gains most: free slots of its own, or the group
whose total speed it raises most. Where there is none, it takes the place of jobs of lower
priority. What finds no place waits, and the plan says why.
"""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from harmony_planner import memory, wording
from harmony_planner.board import Board
from harmony_planner.draft import Draft
from harmony_planner.fitting import fits
from harmony_planner.grouping import WORTHWHILE_GAIN
from harmony_planner.improvement import improve
from harmony_planner.places import GROUPS_LOOKED_AT, best_place, rules_against
from harmony_planner.preemption import make_room
from harmony_planner.snapshot import (
    Group,
    Job,
    Member,
    Plan,
    Slot,
    Snapshot,
    Waiting,
)
from harmony_planner.staying import Staying

PREDICTIONS: Final = 400
"""Of one round over the jobs of a priority; where many wait, fewer groups
are looked at for each."""
MOST_MOVES: Final = 8
"""In one plan: the next one goes on from there."""
SOURCES_LOOKED_AT: Final = 16
"""Of the groups out of which a job could move, the slowest ones."""


def plan(snapshot: Snapshot) -> Plan:
    """Return where every job of the snapshot goes, or why it waits."""
    return _Planning(snapshot).plan()


class _Planning:
    """One pass of the planner over one snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._queue = sorted(
            snapshot.jobs, key=lambda job: (-job.priority, job.submitted, job.name)
        )
        self._board = Board(snapshot)
        self._preempted_by: dict[str, Job] = {}
        self._looked_at = GROUPS_LOOKED_AT
        self._kept: set[str] = set()
        """Jobs that have a place whether or not anybody shares."""
        self._staying = Staying(snapshot, self._board, self._queue)
        self._rooms: dict[frozenset[str], list[tuple[Slot, int]]] = {}
        self._closed = [slot for slot in snapshot.slots if slot.closed is not None]

    def plan(self) -> Plan:
        self._staying.keep()
        waiting = self._place_the_rest()
        for _ in range(MOST_MOVES):
            if not self._make_best_move():
                break
            waiting = self._place_the_rest()
        movable = [job for job, _ in waiting if not job.unschedulable]
        if improve(self._board, movable, self._kept):
            waiting = self._place_the_rest()
        return Plan(
            groups=tuple(_finished(draft) for draft in self._board.drafts.values()),
            waiting=tuple(self._waiting(job, refusals) for job, refusals in waiting),
        )

    # ---- steps

    def _place_the_rest(self) -> list[tuple[Job, list[str]]]:
        """Give places to the jobs that have none; return those that wait, and what refused them.

        Of each priority, first those that fit on free slots: who would run if nobody shared
        never waits for a job behind it.
        """
        waiting: list[tuple[Job, list[str]]] = []
        stuck: list[tuple[Job, list[str]]] = []
        placed = {job.name for draft in self._board.drafts.values() for job in draft.jobs}
        for _, rank in groupby(self._queue, key=attrgetter("priority")):
            left = []
            for job in rank:
                if job.name in placed:
                    continue
                if (alone := self._board.alone(job)) is not None:
                    self._board.put(alone)
                    self._kept.add(job.name)
                    self._preempted_by.pop(job.name, None)
                else:
                    left.append(job)
            self._looked_at = max(1, min(GROUPS_LOOKED_AT, PREDICTIONS // max(1, len(left))))
            for job in left:
                refusals = self._share(job, placed)
                if refusals is not None:
                    (stuck if job.unschedulable else waiting).append((job, refusals))
        for job, refusals in stuck:
            if (draft := self._staying.where_it_was(job)) is not None:
                self._board.put(draft)
            else:
                waiting.append((job, refusals))
        return waiting

    def _share(self, job: Job, placed: set[str]) -> list[str] | None:
        """Give the job a place with others or instead of them; return why there is none."""
        best, refusals = best_place(job, self._board, looked_at=self._looked_at)
        if best is not None:
            self._board.put(best)
        else:
            room = None if job.unschedulable else make_room(job, self._board)
            if room is None:
                return refusals
            for name in room.emptied:
                self._board.remove(name)
            self._board.put(room.draft)
            self._kept.add(job.name)
            for displaced in room.displaced:
                placed.discard(displaced.name)
                self._preempted_by[displaced.name] = job
        self._preempted_by.pop(job.name, None)
        return None

    def _make_best_move(self) -> bool:
        """Move the one job that gains most by it, if any gains enough; say whether one did."""
        best_gain = WORTHWHILE_GAIN
        best: tuple[Draft, Draft] | None = None
        slowest = min((draft.speed for draft in self._board.drafts.values()), default=0.0)
        sources = [
            draft
            for draft in self._board.drafts.values()
            if len(draft.jobs) > 1 and any(job.current_group == draft.name for job in draft.jobs)
        ]
        if not sources:
            return False
        if len(sources) > SOURCES_LOOKED_AT:
            sources = sorted(sources, key=lambda draft: draft.speed)[:SOURCES_LOOKED_AT]
        for source in sources:
            for job in source.jobs:
                if job.current_group != source.name:
                    continue
                left = self._board.without(source, job)
                assert left is not None
                least = 0.0 if next(self._board.free_for(job), None) else slowest
                most = (left.speed + least + 1) / (source.speed + least) - 1
                if left.judgement.refusal is not None or most <= best_gain:
                    continue
                mark = self._board.mark()
                self._board.put(left)
                target = self._board.alone(job) or best_place(job, self._board)[0]
                old = self._board.drafts.get(target.name) if target is not None else None
                self._board.take_back(mark)
                if target is None or target.name == source.name:
                    continue
                speed_before = source.speed + (old.speed if old else 0.0)
                gain = (left.speed + target.speed) / speed_before - 1
                if gain > best_gain:
                    best_gain = gain
                    best = left, target
        for draft in best or ():
            self._board.put(draft)
        return best is not None

    # ---- words

    def _room(self, barred: frozenset[str]) -> list[tuple[Slot, int]]:
        """Return one slot of each kind on other nodes, and how many there are of it."""
        if barred in self._rooms:
            return self._rooms[barred]
        first: dict[tuple[int, int | None], Slot] = {}
        counts = Counter[tuple[int, int | None]]()
        for slot, count in self._snapshot.room or ((slot, 1) for slot in self._snapshot.slots):
            if slot.node not in barred:
                kind = slot.gpus, slot.memory_bytes
                first.setdefault(kind, slot)
                counts[kind] += count
        found = self._rooms[barred] = [(slot, counts[kind]) for kind, slot in first.items()]
        return found

    def _waiting(self, job: Job, refusals: Sequence[str]) -> Waiting:
        never = wording.why_it_never_fits(job, self._room(frozenset()))
        never = never or wording.why_it_never_fits(
            job, self._room(frozenset(job.barred)), job.barred
        )
        preemptor = self._preempted_by.get(job.name)
        closed_to_it = [why for slot in self._closed if fits(job, slot) and (why := slot.closed)]
        reason = wording.waiting_reason(
            job,
            [
                *rules_against(job, self._board),
                *refusals,
                *wording.why_not_there(job, self._board.barred_for(job)),
                *closed_to_it,
            ],
            preemptor,
            outranks=job.priority > self._queue[-1].priority and not job.unschedulable,
        )
        return Waiting(
            job=job.name,
            reason=never or reason,
            never_fits=never is not None,
            preempted_by=preemptor.name if preemptor else None,
        )


def _finished(draft: Draft) -> Group:
    arrangement = draft.judgement.arrangement
    queued = sorted(draft.jobs, key=lambda job: (job.submitted, job.name))
    rounds = {job.name: 1 for job in queued} if arrangement is None else arrangement.rounds
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


def _share(job: Job, draft: Draft, slots: Sequence[Slot]) -> int | None:
    """Return the least share that the job has on any of its slots."""
    shares = []
    for position, slot in enumerate(slots):
        together = [other for other in draft.jobs if other.workers > position]
        shares.append(memory.shares(together, slot)[job.name])
    return min((share for share in shares if share is not None), default=None)
