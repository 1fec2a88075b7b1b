"""How long a job may run: activeDeadlineSeconds from its admission, without suspensions."""

from harmony_api.conditions import FailedReason
from harmony_api.job import HarmonyJobSpec
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.policies.ending import Ending


def deadline_seconds(spec: HarmonyJobSpec, status: HarmonyJobStatus) -> float | None:
    """Return when the job's time is over; None: it has no limit, or its clock stands."""
    if spec.active_deadline_seconds is None or status.start_time is None:
        return None
    return status.start_time.timestamp() + spec.active_deadline_seconds


def overrun(spec: HarmonyJobSpec, status: HarmonyJobStatus, now_seconds: float) -> Ending | None:
    """Return the job's failure, if its time is over."""
    deadline = deadline_seconds(spec, status)
    if deadline is None or now_seconds < deadline:
        return None
    return Ending(
        FailedReason.DEADLINE_EXCEEDED,
        f"it ran longer than activeDeadlineSeconds: {spec.active_deadline_seconds}",
    )
