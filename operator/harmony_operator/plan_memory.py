"""What the last plan said beyond the groups that it made, kept in memory only.

HarmonyGroups are the plan that lasts; why a job got no place in one is derived again by the
next plan, so an operator that starts knows nothing here and loses nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harmony_operator.observed import ObjectKey


@dataclass(frozen=True, kw_only=True)
class PlanMemory:
    """Remarks of the last plan, by job; by uid what goes into a status to stay there."""

    waiting: Mapping[ObjectKey, str] = field(default_factory=dict)
    """Why a job has no slots, in a sentence."""
    never_fitting: frozenset[ObjectKey] = frozenset()
    """Those of `waiting` that no slot could hold even if all were free."""
    preempted_by: Mapping[str, str] = field(default_factory=dict)
    """By uid: `namespace/name` of the job of higher priority that took the slots of this one."""
    separated_from: Mapping[str, frozenset[str]] = field(default_factory=dict)
    """By uid of each job of which there were some: uids of jobs that exist with which it was
    measured to be slower than in turn."""
