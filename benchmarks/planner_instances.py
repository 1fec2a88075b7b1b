"""Clusters and jobs for the planner's benchmark, made from a seed."""

import random
from collections.abc import Sequence
from dataclasses import replace

from harmony_api.profile import JobProfile
from harmony_planner.snapshot import CurrentGroup, Job, Network, Plan, Slot, Snapshot

GIB = 2**30
KINDS = 48
GPUS_PER_NODE = 8
JOBS_PER_NODE = 10
NETWORKS: Sequence[Network] = ("HalfDuplex", "FullDuplex")


def large(jobs: int, *, seed: int = 0) -> Snapshot:
    """Return a cluster of a node of 8 GPUs per 10 jobs, and the jobs, of which many must wait.

    A job is one of 48 kinds (what an iteration costs and what memory it needs) with 1, 2, 4 or
    8 workers of a GPU each and a slowdown limit of its own.
    """
    slots = tuple(
        Slot(
            name=f"node-{node}/gpu-{gpu}",
            node=f"node-{node}",
            device_kind="gpu",
            gpus=1,
            memory_bytes=80 * GIB,
        )
        for node in range(jobs // JOBS_PER_NODE)
        for gpu in range(GPUS_PER_NODE)
    )
    return Snapshot(jobs=arrivals(jobs, seed=seed), slots=slots)


def arrivals(count: int, *, seed: int, first: int = 0) -> tuple[Job, ...]:
    """Return jobs of the same kinds, whatever the seed; `first` is the place of the first one."""
    kinds = [_kind(random.Random(at)) for at in range(KINDS)]
    draw = random.Random(seed)
    found = []
    for at in range(first, first + count):
        profile, memory_bytes = draw.choice(kinds)
        found.append(
            Job(
                name=f"job-{at}",
                submitted=at,
                workers=draw.choices([1, 2, 4, 8], [70, 15, 10, 5])[0],
                gpus_per_worker=1,
                max_slowdown_percent=draw.choice([30, 50, 100, 200]),
                footprint_bytes=memory_bytes,
                minimum_bytes=memory_bytes // 2,
                profile=profile,
            )
        )
    return tuple(found)


def small(seed: int) -> Snapshot:
    """Return three to ten jobs that have not started, on one to four GPUs."""
    draw = random.Random(seed)
    count, places = draw.randint(3, 10), draw.randint(1, 4)
    jobs = []
    for at in range(count):
        seconds = 0.05 * 2 ** draw.uniform(0, 3)
        compute, pull_part, update = draw.uniform(0.1, 0.9), draw.uniform(0.3, 0.6), draw.random()
        transfers = (1 - compute) * (1 - 0.3 * update)
        footprint = draw.choice([4, 8, 12, 16]) * GIB
        jobs.append(
            Job(
                name=f"job-{at}",
                submitted=at,
                workers=draw.choice([1, 1, 1, 2]) if places > 1 else 1,
                gpus_per_worker=1,
                policy="Exclusive" if draw.random() < 0.08 else "Shared",
                max_slowdown_percent=draw.choice([20, 50, 100, 200]),
                footprint_bytes=footprint,
                minimum_bytes=int(footprint * draw.choice([0.25, 0.5, 1])),
                profile=_profile(
                    seconds * compute,
                    seconds * transfers * pull_part,
                    seconds * transfers * (1 - pull_part),
                    seconds * (1 - compute) * 0.3 * update,
                ),
            )
        )
    slots = tuple(
        Slot(name=f"gpu-{at}", node=f"node-{at}", gpus=1, memory_bytes=24 * GIB)
        for at in range(places)
    )
    return Snapshot(jobs=tuple(jobs), slots=slots, network=draw.choice(NETWORKS))


def carried_out(snapshot: Snapshot, decision: Plan) -> Snapshot:
    """Return the snapshot after the plan; what has not changed is the same object."""
    group_of = {member.job: group.name for group in decision.groups for member in group.members}
    before = {group.name: group for group in snapshot.groups}
    groups = [CurrentGroup(name=group.name, slots=group.slots) for group in decision.groups]
    return replace(
        snapshot,
        jobs=tuple(
            job
            if job.current_group == group_of.get(job.name)
            else replace(job, current_group=group_of.get(job.name))
            for job in snapshot.jobs
        ),
        groups=tuple(
            before[group.name] if before.get(group.name) == group else group for group in groups
        ),
    )


def _kind(draw: random.Random) -> tuple[JobProfile, int]:
    seconds = 0.05 * 2 ** draw.uniform(0, 4)
    compute = draw.uniform(0.15, 0.9)
    network = seconds * (1 - compute)
    profile = _profile(seconds * compute, 0.45 * network, 0.45 * network, 0.1 * network)
    return profile, draw.choice([4, 8, 16, 30, 40]) * GIB


def _profile(compute: float, pull: float, push: float, update: float) -> JobProfile:
    return JobProfile(
        iterations=20,
        compute_microseconds=round(1e6 * compute),
        pull_microseconds=round(1e6 * pull),
        push_microseconds=round(1e6 * push),
        update_microseconds=round(1e6 * update),
    )
