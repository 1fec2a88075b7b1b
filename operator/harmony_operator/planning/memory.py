"""What planning remembers between two passes, besides the groups, which are objects.

Nothing here has to survive a restart: profiles, separated pairs and corrections are in status,
and everything else is made anew by the first pass.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harmony_operator.observed import ObjectKey
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.planning.capacity import Refusal
from harmony_operator.planning.stuck_workers import StuckWorkers
from harmony_planner.group_speed import GroupSpeeds
from harmony_planner.remembered import Remembered
from harmony_planner.snapshot import Plan, Snapshot


@dataclass
class PlanningMemory:
    """The last plan, what it rested on, and what was measured since."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(jobs=(), slots=()))
    """What the last plan rested on."""
    plan: Plan = field(default_factory=Plan)
    """The last plan; its groups are named as their objects, `namespace/name`."""
    remembered: Remembered = field(default_factory=Remembered)
    """What the planner begins the next plan from."""
    planned_seconds: float = float("-inf")
    preempted_by: Mapping[str, str] = field(default_factory=dict)
    """By uid of a waiting job that had a place in a plan of this operator: who took it."""
    separated: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By uid of a job: uids of those with which it was measured to be slower than in turn, besides
    those in its status."""
    refused: Mapping[str, Refusal] = field(default_factory=dict)
    """Nodes that did not give the GPUs that they should have had."""
    stuck: StuckWorkers = field(default_factory=dict)
    """Nodes that did not take a job's worker, by job and node."""
    barred: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Nodes where the pods of a template may not run, by what it demands."""
    errors: Mapping[ObjectKey, Exception] = field(default_factory=dict)
    """What planning failed with on the jobs that it left out last."""
    remarks: PlanMemory = field(default_factory=PlanMemory)
    """What the last pass said of the jobs."""
    said_seconds: Mapping[ObjectKey, float] = field(default_factory=dict)
    """When it was last said anew why a job waits."""
    speeds: GroupSpeeds = field(default_factory=GroupSpeeds)
