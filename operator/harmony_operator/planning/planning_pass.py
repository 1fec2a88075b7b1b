"""One pass of planning: measure, ask whether there is a reason to plan, plan, change groups.

A pass without a reason still compares the groups with the last plan, so whatever a failed
write left out is done by the next pass, which costs little: call it after every change that it
may rest on, and after every round of asking the sidecars.
"""

from dataclasses import dataclass

from harmony_operator.actions import Step
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.observed import ClusterState, ObjectKey
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.settings import OperatorSettings


@dataclass(frozen=True, kw_only=True)
class PlanningPass:
    """What one pass wants done."""

    steps: tuple[Step, ...]
    """Changes of HarmonyGroups, in their order; a failed one does not stop those of others."""
    remarks: PlanMemory
    """Why jobs wait, for the views of the jobs."""
    changed: frozenset[ObjectKey]
    """Jobs about which the remarks differ from those of the pass before: look at them again."""
    why: str | None
    """Why it planned anew, in words; None: the last plan holds."""


def planning_pass(
    state: ClusterState, settings: OperatorSettings, binding: GpuBinding, memory: PlanningMemory
) -> PlanningPass:
    """Look at the cluster once; `memory` is kept for the next pass, and only passes change it."""
    raise NotImplementedError
