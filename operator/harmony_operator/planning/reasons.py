"""Whether anything has changed that the last plan rested on."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from harmony_api.profile import JobProfile
from harmony_operator.planning.memory import PlanningMemory
from harmony_planner.snapshot import Job, Snapshot
from harmony_planner.triggers import LastPlan, reason_to_plan


def why_to_plan(snapshot: Snapshot, memory: PlanningMemory, now_seconds: float) -> str | None:
    """Say why to plan now, or None where the last plan holds."""
    last = LastPlan(
        jobs=frozenset(job.name for job in memory.snapshot.jobs),
        profiles=_measured(memory.snapshot),
        planned_at=memory.planned_seconds,
    )
    together: dict[str, set[str]] = defaultdict(set)
    for job in snapshot.jobs:
        if job.current_group is not None:
            together[job.current_group].add(job.name)
    return reason_to_plan(
        last,
        frozenset(job.name for job in snapshot.jobs),
        [frozenset(names) for names in together.values()],
        _measured(snapshot),
        now_seconds,
    ) or _what_changed(memory.snapshot, snapshot)


def _what_changed(before: Snapshot, now: Snapshot) -> str | None:
    wishes = {job.name: job for job in before.jobs}
    for job in now.jobs:
        if job != wishes[job.name] and _wish(job) != _wish(wishes[job.name]):
            return f"{job.name} asks for something else"
        if _nodes(job) != _nodes(wishes[job.name]):
            return f"{job.name} can use other nodes"
    if before.room != now.room or _offered(before) != _offered(now):
        return "slots came, went, or were opened or closed"
    return None


def _nodes(job: Job) -> tuple[Mapping[str, str], Mapping[str, str]]:
    return job.barred, job.unschedulable


def _wish(job: Job) -> Job:
    return replace(job, profile=None, current_group=None, overdue=False)


def _measured(snapshot: Snapshot) -> Mapping[str, JobProfile]:
    return {
        job.name: job.profile
        for job in snapshot.jobs
        if job.profile is not None and job.profile.iterations
    }


def _offered(snapshot: Snapshot) -> frozenset[tuple[str, str | None]]:
    return frozenset((slot.name, slot.closed) for slot in snapshot.slots)
