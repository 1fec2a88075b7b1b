"""What planning remembers between two passes, besides the groups, which are objects.

Nothing here has to survive a restart: profiles, separated pairs and corrections are in status,
and everything else is made anew by the first pass.
"""

from dataclasses import dataclass, field

from harmony_planner.group_speed import GroupSpeeds
from harmony_planner.snapshot import Plan, Snapshot


@dataclass
class PlanningMemory:
    """The last plan, what it rested on, and what was measured since."""

    snapshot: Snapshot = field(default_factory=lambda: Snapshot(jobs=(), slots=()))
    """What the last plan rested on."""
    plan: Plan = field(default_factory=Plan)
    """The last plan; its groups are named as their objects, `namespace/name`."""
    planned_seconds: float = float("-inf")
    speeds: GroupSpeeds = field(default_factory=GroupSpeeds)
