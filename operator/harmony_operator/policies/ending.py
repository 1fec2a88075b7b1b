"""That a job is over, and why; a job that was over once is over for good."""

from dataclasses import dataclass

from harmony_api.conditions import ConditionType, FailedReason, SucceededReason
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.policies.conditions import holds


@dataclass(frozen=True)
class Ending:
    """Success or failure of a job."""

    reason: SucceededReason | FailedReason
    message: str

    @property
    def succeeded(self) -> bool:
        """Whether the job reached its goal."""
        return isinstance(self.reason, SucceededReason)


def is_finished(status: HarmonyJobStatus) -> bool:
    """Whether the job is over, as far as its status says."""
    return holds(status.conditions, ConditionType.SUCCEEDED) or holds(
        status.conditions, ConditionType.FAILED
    )
