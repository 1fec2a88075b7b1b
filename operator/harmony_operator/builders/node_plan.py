"""Node plans: a group's plan as one worker's sidecar reads it."""

from collections.abc import Mapping

from harmony_api.profile import JobProfile
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedGroup, ObservedJob
from harmony_operator.settings import OperatorSettings


def plan_for(
    job: ObservedJob,
    worker: int,
    group: ObservedGroup,
    binding: SlotBinding,
    profiles: Mapping[str, JobProfile],
    settings: OperatorSettings,
) -> str | None:
    """Return the node plan of a worker as JSON; None while its slot's devices are unknown.

    `profiles` are those of the group's members on the slot's kind of device, by
    `names.member_name`; one that is missing is taken as not measured yet.
    """
    raise NotImplementedError


def stopping(plan_json: str) -> str:
    """Return the plan with its stop set, or as it is where that is set already.

    The generation stays: another one would make the arbiter prefer this pod's members to
    those of the group's next plan.
    """
    raise NotImplementedError
