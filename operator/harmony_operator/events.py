"""Events of a job: derived from the difference of two statuses, so each is posted once.

A pass that finds nothing new posts nothing, and a message that merely changes is no event.
They are posted after the status is written, so none tells of what did not happen.
"""

from typing import Final, Literal

from harmony_api.conditions import (
    AdmittedReason,
    Condition,
    ConditionType,
    RunningReason,
    SuspendedReason,
)
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.actions import Event
from harmony_operator.policies.conditions import condition
from harmony_operator.policies.failure import Counted

_NORMAL: Final = frozenset(
    {
        (ConditionType.ADMITTED, AdmittedReason.PLACED),
        (ConditionType.ADMITTED, AdmittedReason.WAITING_FOR_SLOT),
        (ConditionType.ADMITTED, AdmittedReason.WAITING_FOR_QUEUE),
        (ConditionType.RUNNING, RunningReason.WORKERS_RUNNING),
        (ConditionType.RUNNING, RunningReason.MOVING),
        (ConditionType.RUNNING, RunningReason.STOPPING),
        (ConditionType.RUNNING, RunningReason.WORKERS_RESTARTING),
        (ConditionType.SUSPENDED, SuspendedReason.SUSPENDED_BY_SPEC),
        (ConditionType.SUSPENDED, SuspendedReason.RESUMED),
    }
)
"""Told as they come; what is in neither set follows from another condition."""

_WARNINGS: Final = frozenset(
    {
        (ConditionType.ADMITTED, AdmittedReason.NEVER_FITS),
        (ConditionType.RUNNING, RunningReason.SERVERS_RESTARTING),
        (ConditionType.RUNNING, RunningReason.GPU_BINDING_FAILED),
        (ConditionType.RUNNING, RunningReason.UNSCHEDULABLE),
        (ConditionType.RUNNING, RunningReason.IMAGE_MISSING),
        (ConditionType.RUNNING, RunningReason.QUOTA_EXCEEDED),
        (ConditionType.RUNNING, RunningReason.POD_REFUSED),
        (ConditionType.RUNNING, RunningReason.NAME_CONFLICT),
        (ConditionType.RUNNING, RunningReason.INTERNAL_ERROR),
        (ConditionType.SUSPENDED, SuspendedReason.PREEMPTED),
    }
)


def events_between(
    before: HarmonyJobStatus, after: HarmonyJobStatus, counted: Counted | None
) -> tuple[Event, ...]:
    """Return what is worth telling about the change from one status to the next.

    `counted` is the failure that the second counts, if it does; whatever else keeps the job
    from running meanwhile, it is told.
    """
    found: list[Event | None] = []
    if counted is not None and after.restarts > before.restarts:
        found.append(
            Event(type="Warning", reason=RunningReason.BACKING_OFF, message=counted.message)
        )
    for kind in ConditionType:
        old, new = condition(before.conditions, kind), condition(after.conditions, kind)
        if new is None or (old and (old.status, old.reason) == (new.status, new.reason)):
            continue
        found.append(_of_condition(kind, new))
    return tuple(event for event in found if event is not None)


def _of_condition(kind: ConditionType, new: Condition) -> Event | None:
    what = (kind, new.reason)
    if kind == ConditionType.VALID and new.status == "False":
        return _event("Warning", new)
    if kind == ConditionType.SUCCEEDED and new.status == "True":
        return _event("Normal", new)
    if kind == ConditionType.FAILED and new.status == "True":
        return _event("Warning", new)
    if what in _NORMAL:
        return _event("Normal", new)
    return _event("Warning", new) if what in _WARNINGS else None


def _event(kind: Literal["Normal", "Warning"], about: Condition) -> Event:
    return Event(type=kind, reason=about.reason, message=about.message or about.reason)
