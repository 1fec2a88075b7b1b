"""Whether a job may run now, and which servers it keeps while it may not.

A job that is suspended by its spec gives up everything that it can continue without: its
servers too, once they wrote a snapshot to the checkpoint's volume. One that was preempted, or
waits for slots for another reason, keeps its servers and so its state.
"""

from typing import Final

from harmony_api.conditions import ConditionType, SuspendedReason
from harmony_api.job import HarmonyJobSpec
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.policies.conditions import Observation, condition
from harmony_operator.policies.standing import Standing
from harmony_operator.view import JobView


def has_checkpoint(spec: HarmonyJobSpec) -> bool:
    """Whether the servers can write snapshots that outlive them."""
    checkpoint = spec.checkpoint
    return checkpoint is not None and (
        checkpoint.volume_claim_name is not None or checkpoint.volume_claim_template is not None
    )


def keeps_servers(spec: HarmonyJobSpec) -> bool:
    """Whether servers stay although no worker runs."""
    return not (spec.suspend and has_checkpoint(spec))


def preempted_by(spec: HarmonyJobSpec, view: JobView) -> str | None:
    """Return the job that has this one's slots; known until it has slots again."""
    if view.group is not None or spec.suspend:
        return None
    return view.preempted_by or view.job.status.preempted_by


def suspension(standing: Standing) -> Observation:
    """Return the condition Suspended of a job that is not finished."""
    view, spec = standing.view, standing.spec
    if spec is None:
        return Observation("False", *_not_suspended(view.job.status))
    by = preempted_by(spec, view)
    if not spec.suspend and by is None:
        return Observation("False", *_not_suspended(view.job.status))
    if standing.busy_workers:
        return Observation("False", SuspendedReason.STOPPING, "its workers stop")
    if standing.servers and not keeps_servers(spec):
        return Observation("False", SuspendedReason.STOPPING, "its servers write a snapshot")
    if by is not None:
        message = f"{by} has a higher priority; it goes on when there are slots"
        return Observation("True", SuspendedReason.PREEMPTED, message)
    words = _KEPT if standing.servers else _GIVEN_UP
    return Observation("True", SuspendedReason.SUSPENDED_BY_SPEC, words)


_GIVEN_UP: Final = "spec.suspend is true; it holds nothing"
_KEPT: Final = (
    "its servers stay as they are, because there is no checkpoint volume: a changed template of "
    "theirs is for those that are made anew"
)


def _not_suspended(status: HarmonyJobStatus) -> tuple[SuspendedReason, str]:
    before = condition(status.conditions, ConditionType.SUSPENDED)
    began = before is not None and before.reason != SuspendedReason.NOT_SUSPENDED
    if not began:
        return SuspendedReason.NOT_SUSPENDED, ""
    return SuspendedReason.RESUMED, "it goes on where it stopped"
