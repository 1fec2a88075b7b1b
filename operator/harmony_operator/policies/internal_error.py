"""What is said of a job on which the operator itself fails: a user cannot see the operator's log.

Nothing is changed but the word about it: whatever runs goes on, and the next pass that succeeds
takes it back. A finished job stays as it is.
"""

from harmony_api.conditions import ConditionType, RunningReason
from harmony_operator.actions import Actions
from harmony_operator.events import events_between
from harmony_operator.observed import ObservedJob
from harmony_operator.policies.conditions import Observation, updated
from harmony_operator.policies.ending import is_finished


def internal_error(job: ObservedJob, error: Exception, now_seconds: float) -> Actions:
    """Return the status that tells of the error, and its event when it is news."""
    if job.deleting or is_finished(job.status):
        return Actions()
    message = f"the operator fails on this job: {in_words(error)}; its log has more"
    seen = Observation("Unknown", RunningReason.INTERNAL_ERROR, message, figures_matter=False)
    conditions = updated(
        job.status.conditions,
        {ConditionType.RUNNING: seen},
        generation=job.generation,
        now_seconds=now_seconds,
    )
    status = job.status.model_copy(update={"conditions": conditions})
    return Actions(status=status, events=events_between(job.written, status, None))


def in_words(error: Exception) -> str:
    """Return the error on one line, as in `KeyError: 'name'`."""
    return " ".join(f"{type(error).__name__}: {error}".split())
