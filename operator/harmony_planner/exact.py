"""The best plan of a small instance, found by looking at every one: what `plan` is held to.

The objective is the planner's own: the total speed of the groups and RUNNING_COUNTS for each job
that runs, over the plans that keep every rule and in which every job runs that would run if
nobody shared (the first in the queue first). Groups are judged as the planner judges them.
Dynamic programming over sets of jobs, so the work doubles with each job: for about a dozen.
"""

from collections.abc import Mapping
from itertools import combinations

from harmony_planner.fitting import begins_on
from harmony_planner.grouping import LARGEST_GROUP, RUNNING_COUNTS, WORTHWHILE_GAIN, judge
from harmony_planner.performance import Link
from harmony_planner.snapshot import Job, Snapshot

_IMPOSSIBLE = float("-inf")


def best_value(snapshot: Snapshot) -> float:
    """Return the value of the best plan of jobs that have not started.

    All slots have to be alike and open, all jobs of one priority, accept every node and use all
    of a slot's GPUs.
    Raises ValueError where they are not.
    """
    _check(snapshot)
    jobs = sorted(snapshot.jobs, key=lambda job: (job.submitted, job.name))
    count = len(snapshot.slots)
    kept, free = 0, count
    for at, job in enumerate(jobs):
        if job.workers <= free:
            free -= job.workers
            kept |= 1 << at
    values = _group_values(jobs, snapshot)
    by_first: list[list[tuple[int, int, float]]] = [[] for _ in jobs]
    for group, value in values.items():
        width = max(job.workers for at, job in enumerate(jobs) if group >> at & 1)
        first = (group & -group).bit_length() - 1
        by_first[first].append((group, width, value))
    best = [[0.0] * (count + 1)]
    for mask in range(1, 1 << len(jobs)):
        row = [_IMPOSSIBLE] * (count + 1)
        for group, width, value in by_first[(mask & -mask).bit_length() - 1]:
            if group & ~mask == 0:
                rest = best[mask ^ group]
                for used in range(width, count + 1):
                    row[used] = max(row[used], rest[used - width] + value)
        best.append(row)
    return max(best[mask][count] for mask in range(1 << len(jobs)) if mask & kept == kept)


def _group_values(jobs: list[Job], snapshot: Snapshot) -> Mapping[int, float]:
    """Return what each group that is allowed is worth, by the set of its members."""
    link = Link(snapshot.network, snapshot.servers_share_core)
    found = {}
    for size in range(1, LARGEST_GROUP + 1):
        for members in combinations(range(len(jobs)), size):
            together = tuple(jobs[at] for at in members)
            width = max(job.workers for job in together)
            if width > len(snapshot.slots):
                continue
            judgement = judge(together, snapshot.slots[:width], link)
            too_slow = size > 1 and judgement.speed < 1 + WORTHWHILE_GAIN
            if judgement.refusal is None and not too_slow:
                group = sum(1 << at for at in members)
                found[group] = judgement.speed + RUNNING_COUNTS * size
    return found


def _check(snapshot: Snapshot) -> None:
    first = snapshot.slots[0] if snapshot.slots else None
    if first is None or snapshot.groups or len({job.priority for job in snapshot.jobs}) > 1:
        raise ValueError("only a first plan on some slots, for jobs of one priority")
    alike = {(slot.gpus, slot.memory_bytes, slot.closed) for slot in snapshot.slots}
    if alike != {(first.gpus, first.memory_bytes, None)}:
        raise ValueError("the slots have to be alike and open")
    if not all(begins_on(job, slot) for job in snapshot.jobs for slot in snapshot.slots):
        raise ValueError("every job has to fit every slot")
