"""From a plan to HarmonyGroup objects."""

from harmony_operator.actions import Step
from harmony_operator.observed import ClusterState
from harmony_operator.settings import OperatorSettings
from harmony_planner.snapshot import Plan


def group_changes(plan: Plan, state: ClusterState, settings: OperatorSettings) -> tuple[Step, ...]:
    """Return what makes the groups equal to the plan; nothing where they are."""
    raise NotImplementedError
