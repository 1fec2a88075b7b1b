"""Who must look again when something changed.

Too many looks are only slow, one too few is a job that stands still; so whatever a decision
reads appears here. Where only something is to be told (pods start, figures move), one look a
moment later is for all of it.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from harmony_api.conditions import ConditionType
from harmony_operator.builders.volume_claim import volume_claim_of
from harmony_operator.lasting import lasting
from harmony_operator.mirror import Change, Mirror, group_of, job_of, members_of
from harmony_operator.mirrored import Priority, Slice
from harmony_operator.observed import (
    ObjectKey,
    ObservedClaim,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    ObservedReservation,
    ObservedService,
    VolumeClaim,
)
from harmony_operator.planning.snapshot import takes_part
from harmony_operator.work_queue import WorkQueue

MOMENT_SECONDS: Final = 1.0
"""Longer than a status may wait: the look that writes it is for both."""

_DECISIVE: Final = {
    ConditionType.VALID,
    ConditionType.SUSPENDED,
    ConditionType.SUCCEEDED,
    ConditionType.FAILED,
}
"""Conditions that decide whether a job takes part in a plan."""


class Dispatcher:
    """Tells queues and planner of changes."""

    def __init__(self, wake_planner: Callable[[], None]) -> None:
        self.jobs: WorkQueue[ObjectKey] = WorkQueue()
        self.groups: WorkQueue[ObjectKey] = WorkQueue()
        self.mirror = Mirror(self._tell)
        self._wake_planner = wake_planner

    def _tell(self, change: Change) -> None:
        match change.after or change.before:
            case ObservedJob():
                self._job(change.key, change.before, change.after)
            case ObservedGroup():
                self._group(change.key, change.before, change.after)
            case ObservedPod() as pod:
                ends = change.after is None or pod.finished or pod.deleting_since_seconds
                self._look(job_of(pod), at_once=bool(ends))
                if change.after is None or pod.finished:
                    self._wake_planner()
                    for member in self.mirror.members_on(pod.slot) if pod.slot else ():
                        self.jobs.add(member)
            case ObservedReservation() | ObservedClaim() as bound:
                if not bound.group:
                    self._wake_planner()  # it takes devices from us, or gives them back
                else:
                    self._group_and_members(group_of(bound))
            case ObservedNode() as node:
                self._wake_planner()
                for pod in self.mirror.pods.values():
                    if pod.node == node.name:
                        self.jobs.add(job_of(pod))
            case Slice():
                self._wake_planner()
            case Priority():
                self._wake_planner()
                for key in self.mirror.jobs:
                    self.jobs.add(key)
            case VolumeClaim():
                for key, job in self.mirror.jobs.items():
                    if key.namespace == change.key.namespace and _names(job, change.key.name):
                        self.jobs.add(key)
            case ObservedService() as service:
                self._look(service.key, at_once=change.after is None)

    def _job(self, key: ObjectKey, before: object, after: object) -> None:
        if isinstance(before, ObservedJob) and isinstance(after, ObservedJob):
            self._look(key, at_once=_decided_by(before) != _decided_by(after))
            if _planned_by(before) == _planned_by(after):
                return
        else:
            self.jobs.add(key)
        for group in self.mirror.groups_of(key):
            self._group_and_members(group.key)
        if before is not None or (isinstance(after, ObservedJob) and takes_part(after)):
            self._wake_planner()

    def _group(self, key: ObjectKey, before: object, after: object) -> None:
        self.groups.add(key)
        told_only = (
            isinstance(before, ObservedGroup)
            and isinstance(after, ObservedGroup)
            and before == replace(after, status=before.status)
        )
        members = {
            member
            for one in (before, after)
            if isinstance(one, ObservedGroup)
            for member in members_of(one)
        }
        for member in members:
            self._look(member, at_once=not told_only)
        if not told_only:
            self._wake_planner()

    def _look(self, job: ObjectKey, *, at_once: bool) -> None:
        if at_once:
            self.jobs.add(job)
        else:
            self.jobs.add_after(job, MOMENT_SECONDS)

    def _group_and_members(self, key: ObjectKey) -> None:
        self.groups.add(key)
        group = self.mirror.groups.get(key)
        for member in members_of(group) if group else ():
            self.jobs.add(member)


def _names(job: ObservedJob, volume_claim: str) -> bool:
    """Whether the job's servers write to a claim of that name."""
    if job.job is None:
        return False
    servers = range(job.job.spec.parameter_servers.replicas)
    return any(volume_claim_of(job, server) == volume_claim for server in servers)


def _decided_by(job: ObservedJob) -> tuple[object, ...]:
    """Return what the next pass over the job itself does something about."""
    return job.uid, job.generation, job.deleting, lasting(job.status)


def _planned_by(job: ObservedJob) -> tuple[object, ...]:
    """Return what plans, and other members of its group, may rest on."""
    status = job.status
    return (
        job.uid,
        job.generation,
        job.deleting,
        {one.type: one.status for one in status.conditions if one.type in _DECISIVE},
        status.profiles,
        status.separated_from,
        status.preempted_by,
    )
