"""What is kept from one plan to the next, so that only what has changed is looked at again.

The caller keeps it and hands it to the next plan of the same cluster; without it, or where the
slots are others, everything is planned anew. A job is as before while its part of the snapshot
is the same and it is where the last plan put it. Then its group is kept without being judged,
and a job that waits is offered only what has changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from harmony_planner.board import Board
from harmony_planner.draft import Draft
from harmony_planner.snapshot import (
    CurrentGroup,
    Group,
    Job,
    Slot,
    Snapshot,
    Waiting,
    queue_place,
)

FEW_WAIT: Final = 64
"""Where no more jobs wait, all of them are offered everything again, and told anew why."""


@dataclass
class Remembered:
    """The last plan, as it was found."""

    snapshot: Snapshot | None = None
    board: Board | None = None
    slots: Mapping[str, Slot] = field(default_factory=dict)
    closed: Sequence[Slot] = ()
    rooms: dict[frozenset[str], list[tuple[Slot, int]]] = field(default_factory=dict)
    jobs: Mapping[str, Job] = field(default_factory=dict)
    groups: Mapping[str, CurrentGroup] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    """By job, the group that it is in on the board."""
    finished: dict[str, tuple[Draft, Group]] = field(default_factory=dict)
    waiting: dict[str, Waiting] = field(default_factory=dict)


@dataclass(frozen=True)
class Start:
    """Where a plan begins: a board with the groups that are as before."""

    board: Board
    jobs: Mapping[str, Job]
    groups: Mapping[str, CurrentGroup]
    """All that exist now."""
    members: Mapping[str, Sequence[Job]]
    """Of each group that is looked at again, the first in the queue first."""
    unplaced: dict[str, Job]
    """Those of no group on the board."""
    as_before: frozenset[str]
    """Those of them that were offered everything there was, by the last plan."""


def start(snapshot: Snapshot, last: Remembered) -> Start:
    """Return where the plan begins, and take over what is the same."""
    jobs = {job.name: job for job in snapshot.jobs}
    groups = {group.name: group for group in snapshot.groups}
    if last.board is None or not _same_cluster(snapshot, last.snapshot):
        last.slots = {slot.name: slot for slot in snapshot.slots}
        last.closed = [slot for slot in snapshot.slots if slot.closed is not None]
        last.rooms, last.places, last.finished, last.waiting = {}, {}, {}, {}
        board, last.board = Board(snapshot), None
        return Start(board, jobs, groups, _members(snapshot.jobs), jobs.copy(), frozenset())
    board, places = last.board, last.places
    last.board = None
    board.go_on(snapshot)
    changed = [
        job
        for name, job in jobs.items()
        if places.get(name) != job.current_group or not _same_job(job, last.jobs.get(name))
    ]
    gone = last.jobs.keys() - jobs.keys()
    touched = {job.current_group for job in changed} | {places.get(job.name) for job in changed}
    touched |= {places.get(name) for name in gone}
    touched |= last.groups.keys() - groups.keys()
    touched |= {name for name, group in groups.items() if last.groups.get(name) != group}
    here = {job.name: job for job in changed if job.current_group is not None}
    for name in sorted(filter(None, touched & board.drafts.keys())):
        for job in board.drafts[name].jobs:
            if job.name in jobs:
                here[job.name] = jobs[job.name]
        board.remove(name)
    for name in gone:
        board.loads.forget(name)
    as_before = last.waiting.keys() - {job.name for job in changed} - gone
    offered_all = as_before if len(as_before) > FEW_WAIT else frozenset[str]()
    return Start(
        board,
        jobs,
        groups,
        _members(here.values()),
        {name: jobs[name] for name in (*here, *(j.name for j in changed), *sorted(as_before))},
        frozenset(offered_all),
    )


def finish(snapshot: Snapshot, begun: Start, waiting: dict[str, Waiting], last: Remembered) -> None:
    """Take over what the next plan begins from; one that failed leaves nothing behind."""
    board = last.board = begun.board
    for name, old in board.changes():
        if name not in board.drafts:
            last.finished.pop(name, None)
        for job in old.jobs if old is not None else ():
            last.places.pop(job.name, None)
    for name, _ in board.changes():
        for job in board.drafts[name].jobs if name in board.drafts else ():
            last.places[job.name] = name
    last.snapshot, last.jobs, last.groups, last.waiting = (
        snapshot,
        begun.jobs,
        begun.groups,
        waiting,
    )


def _members(jobs: Iterable[Job]) -> Mapping[str, Sequence[Job]]:
    found: dict[str, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=queue_place):
        if job.current_group is not None:
            found[job.current_group].append(job)
    return found


def _same_job(job: Job, before: Job | None) -> bool:
    return job is before or (job == before and before is not None and job.barred == before.barred)


def _same_cluster(snapshot: Snapshot, before: Snapshot | None) -> bool:
    return (
        before is not None
        and snapshot.slots == before.slots
        and snapshot.room == before.room
        and snapshot.network == before.network
        and snapshot.servers_share_core == before.servers_share_core
    )
