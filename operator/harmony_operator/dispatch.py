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

MOMENT_SECONDS: Final = 0.8
"""No shorter than the time for which a status may wait: one look is for both."""

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
                if change.after is None or pod.finished or pod.deleting_since_seconds is not None:
                    self.jobs.add(job_of(pod))
                else:
                    self.jobs.add_after(job_of(pod), MOMENT_SECONDS)
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
                self.jobs.add(service.key)

    def _job(self, key: ObjectKey, before: object, after: object) -> None:
        if (
            isinstance(before, ObservedJob)
            and isinstance(after, ObservedJob)
            and _planned_by(before) == _planned_by(after)
        ):
            self.jobs.add_after(key, MOMENT_SECONDS)
            return
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
            if told_only:
                self.jobs.add_after(member, MOMENT_SECONDS)
            else:
                self.jobs.add(member)
        if not told_only:
            self._wake_planner()

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
