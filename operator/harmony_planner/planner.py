"""The planner: from a snapshot to a plan, as a pure function.

Running jobs stay where they are unless a rule or a measurement forbids it, or another place
gains enough to pay for restarting their workers. Then every other job, by priority and then in
the order of submission, takes the place that gains most: free slots of its own, or the group
whose total speed it raises most. Where there is none, it takes the place of jobs of lower
priority. Those that have not started change places while that gains anything. What finds no
place waits, and the plan says why.
"""

from collections import Counter
from collections.abc import Sequence
from functools import cached_property
from heapq import nsmallest
from typing import Final

from harmony_planner import wording
from harmony_planner.draft import Draft
from harmony_planner.finished import finished
from harmony_planner.fitting import fits
from harmony_planner.improvement import improve
from harmony_planner.moves import make_best_move
from harmony_planner.places import (
    FEW_GROUPS,
    GROUPS_LOOKED_AT,
    LEAST_LOOKED_AT,
    best_place,
    rules_against,
)
from harmony_planner.preemption import make_room
from harmony_planner.remembered import Remembered, finish, start
from harmony_planner.snapshot import (
    Group,
    Job,
    Plan,
    Slot,
    Snapshot,
    Waiting,
    queue_place,
)
from harmony_planner.staying import Staying

PREDICTIONS: Final = 400
"""Of one round over the jobs of a priority: where many look for a place, each looks at fewer."""
WAITING_LOOKED_AT: Final = 64
"""Of the jobs that waited already, the first ones are offered what has changed."""
WAITING_TRIED: Final = 4
"""Of these, those to which it promises most."""
MOST_MOVES: Final = 8
"""In one plan: the next one goes on from there."""


def plan(snapshot: Snapshot, last: Remembered | None = None) -> Plan:
    """Return where every job of the snapshot goes, or why it waits.

    `last` is what the plan before has left there, and gets what the next one needs.
    """
    return _Planning(snapshot, Remembered() if last is None else last).plan()


class _Planning:
    """One pass of the planner over one snapshot."""

    def __init__(self, snapshot: Snapshot, last: Remembered) -> None:
        self._snapshot = snapshot
        self._last = last
        self._start = start(snapshot, last)
        self._board = self._start.board
        self._unplaced = self._start.unplaced
        self._preempted_by: dict[str, Job] = {}
        self._kept: set[str] = set()
        """Jobs that have a place whether or not anybody shares."""
        self._kept_free: list[tuple[Job, int]] = []
        """For whom slots are kept free, and how many."""
        self._staying = Staying(snapshot, self._board, last.slots)

    def plan(self) -> Plan:
        self._staying.keep(self._start.members)
        self._count_again()
        waiting = self._place_the_rest()
        for _ in range(MOST_MOVES):
            if not make_best_move(self._board):
                break
            waiting = self._place_the_rest()
        movable = [job for job, _ in waiting if not job.unschedulable]
        if improve(self._board, movable, self._kept):
            self._count_again()
            waiting = self._place_the_rest()
        said = {job.name: self._waiting(job, refusals) for job, refusals in waiting}
        finish(self._snapshot, self._start, said, self._last)
        return Plan(
            groups=tuple(map(self._finished, self._board.drafts.values())),
            waiting=tuple(said.values()),
        )

    # ---- steps

    def _count_again(self) -> None:
        """See who has a place, after groups were changed as a whole."""
        drafts, changes = self._board.drafts, self._board.changes()
        here = {job.name for name, _ in changes if name in drafts for job in drafts[name].jobs}
        before = {job.name for _, old in changes if old is not None for job in old.jobs}
        jobs = self._start.jobs
        self._unplaced |= {name: jobs[name] for name in sorted(before) if name in jobs}
        for name in here:
            self._unplaced.pop(name, None)

    def _place_the_rest(self) -> list[tuple[Job, list[str] | None]]:
        """Give places to the jobs that have none; return those that wait, and what refused them.

        Of each priority, first those that fit on free slots: who would run if nobody shared
        never waits for a job behind it. Where such a job has waited too long, what is free is kept
        for it, and others may only share. None stands for the refusals of before.
        """
        waiting: list[tuple[Job, list[str] | None]] = []
        stuck: list[tuple[Job, list[str] | None]] = []
        self._board.give_up_kept()
        self._kept_free.clear()
        done = set[int]()
        while ranks := {job.priority for job in self._unplaced.values()} - done:
            priority = max(ranks)
            done.add(priority)
            rank = [job for job in self._unplaced.values() if job.priority == priority]
            rank.sort(key=queue_place)
            for job in rank:
                if not self._board.has_free():
                    break
                if (alone := self._board.alone(job)) is not None:
                    self._board.put(alone)
                    self._kept.add(job.name)
                    self._preempted_by.pop(job.name, None)
                    del self._unplaced[job.name]
                elif job.overdue:
                    if self._share(job, None, GROUPS_LOOKED_AT) is None:
                        del self._unplaced[job.name]
                    elif kept := self._board.keep_free(job):
                        self._kept_free.append((job, kept))
            left = [job for job in rank if job.name in self._unplaced]
            waiting += [(job, None) for job in self._offered_nothing(left)]
            passed_over = {job.name for job, _ in waiting}
            left = [job for job in left if job.name not in passed_over]
            looked_at = max(
                LEAST_LOOKED_AT, min(GROUPS_LOOKED_AT, PREDICTIONS // max(1, len(left)))
            )
            for job in left:
                again = job.name in self._start.as_before
                offers = self._offers() if again else None
                refusals = self._share(job, offers, looked_at)
                if refusals is None:
                    del self._unplaced[job.name]
                else:
                    (stuck if job.unschedulable else waiting).append(
                        (job, None if offers is not None else refusals)
                    )
        for job, refusals in stuck:
            if (draft := self._staying.where_it_was(job)) is not None:
                self._board.put(draft)
                del self._unplaced[job.name]
            else:
                waiting.append((job, refusals))
        return waiting

    def _offered_nothing(self, left: Sequence[Job]) -> list[Job]:
        """Return the jobs that waited already and that what has changed does not promise much."""
        again = [job for job in left if job.name in self._start.as_before]
        offers = self._offers()
        if not again or offers is None:
            return []
        promised = [
            (-gain, at)
            for at, job in enumerate(again[:WAITING_LOOKED_AT])
            if (gain := self._promise(job, offers)) is not None
        ]
        tried = {at for _, at in nsmallest(WAITING_TRIED, promised)}
        return [job for at, job in enumerate(again) if at not in tried]

    def _promise(self, job: Job, offers: Sequence[Draft]) -> float | None:
        """Return how much the job may gain in the groups; None where it cannot join any."""
        if offers and job.priority > self._least_priority:
            return float(job.priority)
        return self._board.most_gain(job, offers)

    def _offers(self) -> Sequence[Draft] | None:
        """Return the groups that a job that waited already is offered; None for all."""
        if not self._start.as_before:
            return None
        changed = self._board.changed()
        return changed if len(changed) <= FEW_GROUPS else None

    def _share(self, job: Job, offers: Sequence[Draft] | None, looked_at: int) -> list[str] | None:
        """Give the job a place with others or instead of them; return why there is none."""
        best, refusals = best_place(job, self._board, offers, looked_at=looked_at)
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
                self._unplaced[displaced.name] = displaced
                self._preempted_by[displaced.name] = job
        self._preempted_by.pop(job.name, None)
        return None

    def _finished(self, draft: Draft) -> Group:
        known = self._last.finished.get(draft.name)
        if known is None or known[0] is not draft:
            known = self._last.finished[draft.name] = draft, finished(draft)
        return known[1]

    # ---- words

    @cached_property
    def _least_priority(self) -> int:
        return min(job.priority for job in self._snapshot.jobs)

    def _room(self, barred: frozenset[str]) -> list[tuple[Slot, int]]:
        """Return one slot of each kind on other nodes, and how many there are of it."""
        if barred in self._last.rooms:
            return self._last.rooms[barred]
        first: dict[tuple[int, int | None], Slot] = {}
        counts = Counter[tuple[int, int | None]]()
        for slot, count in self._snapshot.room or ((slot, 1) for slot in self._snapshot.slots):
            if slot.node not in barred:
                kind = slot.gpus, slot.memory_bytes
                first.setdefault(kind, slot)
                counts[kind] += count
        found = self._last.rooms[barred] = [(slot, counts[kind]) for kind, slot in first.items()]
        return found

    def _waiting(self, job: Job, refusals: Sequence[str] | None) -> Waiting:
        if refusals is None:
            return self._last.waiting[job.name]
        never = wording.why_it_never_fits(job, self._room(frozenset()))
        never = never or wording.why_it_never_fits(
            job, self._room(frozenset(job.barred)), job.barred
        )
        preemptor = self._preempted_by.get(job.name)
        closed_to_it = [
            why for slot in self._last.closed if fits(job, slot) and (why := slot.closed)
        ]
        kept = [wording.kept_free(other, count, job) for other, count in self._kept_free]
        reason = wording.waiting_reason(
            job,
            [
                *kept,
                *rules_against(job, self._board),
                *refusals,
                *wording.why_not_there(job, self._board.barred_for(job)),
                *closed_to_it,
            ],
            preemptor,
            outranks=job.priority > self._least_priority and not job.unschedulable,
        )
        return Waiting(
            job=job.name,
            reason=never or reason,
            never_fits=never is not None,
            preempted_by=preemptor.name if preemptor else None,
        )
