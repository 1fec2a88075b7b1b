"""When a finished job is deleted: ttlSecondsAfterFinished after its end."""

from harmony_api.job import HarmonyJobSpec
from harmony_api.job_status import HarmonyJobStatus


def expiry_seconds(spec: HarmonyJobSpec, status: HarmonyJobStatus) -> float | None:
    """Return when the finished job is to be deleted; None: never."""
    if spec.ttl_seconds_after_finished is None or status.completion_time is None:
        return None
    return status.completion_time.timestamp() + spec.ttl_seconds_after_finished
