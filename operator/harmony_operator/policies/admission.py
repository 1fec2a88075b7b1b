"""Whether the plan gives a job slots, and why not, in words."""

from harmony_api.conditions import AdmittedReason, ConditionType
from harmony_api.labels import QUEUE_NAME
from harmony_operator.policies.conditions import Observation, condition
from harmony_operator.policies.standing import Standing
from harmony_operator.policies.suspend import preempted_by


def admission(standing: Standing) -> Observation:
    """Return the condition Admitted of a job that is not finished."""
    view, spec = standing.view, standing.spec
    if standing.fault is not None or spec is None:
        return Observation("False", AdmittedReason.NOT_VALID, "see the condition Valid")
    if spec.suspend:
        queue = view.job.labels.get(QUEUE_NAME)
        if queue is not None:
            return Observation(
                "False", AdmittedReason.WAITING_FOR_QUEUE, f"queue {queue} has not resumed it"
            )
        return Observation("False", AdmittedReason.SUSPENDED, "spec.suspend is true")
    if view.member is not None:
        return Observation("True", AdmittedReason.PLACED, view.member.reason)
    if view.never_fits and view.waiting is not None:
        return Observation("False", AdmittedReason.NEVER_FITS, view.waiting)
    by = preempted_by(spec, view)
    if by is not None:
        return Observation(
            "False", AdmittedReason.PREEMPTED, view.waiting or f"{by} took its slots"
        )
    if view.waiting is not None:
        return Observation("False", AdmittedReason.WAITING_FOR_SLOT, view.waiting)
    before = condition(view.job.status.conditions, ConditionType.ADMITTED)
    if before is not None and before.reason in _PLANNERS:
        return Observation(before.status, before.reason, before.message)
    return Observation("Unknown", AdmittedReason.WAITING_FOR_PLAN, "the next plan decides")


_PLANNERS = (AdmittedReason.WAITING_FOR_SLOT, AdmittedReason.NEVER_FITS)
"""What an earlier plan said holds until the next one has spoken."""
