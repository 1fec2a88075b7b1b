"""The slots of a cluster: those that groups hold, and those that are free."""

from harmony_operator.gpu_binding import BindingName
from harmony_operator.observed import ClusterState
from harmony_operator.settings import OperatorSettings
from harmony_planner.snapshot import Slot


def slots(
    state: ClusterState, settings: OperatorSettings, binding: BindingName
) -> tuple[Slot, ...]:
    """Return the slots, those of the groups first."""
    raise NotImplementedError
