"""What the planner is told of a cluster."""

from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.observed import ClusterState
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.settings import OperatorSettings
from harmony_planner.snapshot import Snapshot


def planning_snapshot(
    state: ClusterState, settings: OperatorSettings, binding: GpuBinding, memory: PlanningMemory
) -> Snapshot:
    """Return the snapshot; jobs and groups are named `namespace/name`."""
    raise NotImplementedError
