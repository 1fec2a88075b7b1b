"""One pass of planning: measure, ask whether there is a reason to plan, plan, change groups.

A pass without a reason still compares the groups with the last plan, so whatever a failed
write left out is done by the next pass, which costs little: call it after every change that it
may rest on, and after every round of asking the sidecars.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from harmony_operator.actions import Delete, ReplaceSpec, Step
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.observed import ClusterState, ObjectKey
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.planning import measured
from harmony_operator.planning.group_status import status_changes
from harmony_operator.planning.groups import group_changes, key_of, named
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.planning.reasons import why_to_plan
from harmony_operator.planning.snapshot import planning_snapshot
from harmony_operator.policies.internal_error import in_words
from harmony_operator.settings import OperatorSettings
from harmony_planner.planner import plan
from harmony_planner.snapshot import Plan

_Key = TypeVar("_Key")

REWORDED_AFTER_SECONDS: Final = 60.0
"""So long the words stay in which a job is told why it waits: they have figures and names that
differ from plan to plan, and each change is a write for every job that waits."""


@dataclass(frozen=True, kw_only=True)
class PlanningPass:
    """What one pass wants done."""

    steps: tuple[Step, ...]
    """Changes of HarmonyGroups, then of their status, in their order; one that fails stops none
    of the others."""
    remarks: PlanMemory
    """Why jobs wait, for the views of the jobs."""
    changed: frozenset[ObjectKey]
    """Jobs about which the remarks differ from those of the pass before: look at them again."""
    why: str | None
    """Why it planned anew, in words; None: the last plan holds."""
    errors: Mapping[ObjectKey, Exception]
    """On which jobs planning fails now, and did not before; they are left out."""


def planning_pass(
    state: ClusterState, settings: OperatorSettings, binding: GpuBinding, memory: PlanningMemory
) -> PlanningPass:
    """Look at the cluster once; `memory` is kept for the next pass, and only passes change it."""
    if memory.planned_seconds == float("-inf"):
        measured.resume(state, memory)
    known_errors = memory.errors
    counts = measured.counts(state)
    apart = measured.learn(state, memory, counts)
    snapshot = planning_snapshot(state, settings, binding, memory)
    why = apart or why_to_plan(snapshot, memory, state.now_seconds)
    if why is not None:
        decision = plan(snapshot, memory.remembered)
        memory.snapshot = snapshot
        memory.plan = named(
            decision, state, settings, crosses_namespaces=binding.crosses_namespaces
        )
        memory.planned_seconds = state.now_seconds
        memory.speeds.begin(memory.plan, counts)
        memory.preempted_by = _preempted_by(memory.plan, state, memory)
    before, memory.remarks = memory.remarks, _remarks(memory, state)
    changes = group_changes(memory.plan, memory.snapshot, state, settings)
    changing = {step.key for step in changes if isinstance(step, ReplaceSpec | Delete)}
    return PlanningPass(
        steps=(*changes, *status_changes(state, memory, counts, changing)),
        remarks=memory.remarks,
        changed=_differing(before, memory.remarks, state),
        why=why,
        errors={key: one for key, one in memory.errors.items() if key not in known_errors},
    )


def _preempted_by(decision: Plan, state: ClusterState, memory: PlanningMemory) -> dict[str, str]:
    """Return who took the place of each waiting job, now or in a plan before."""
    found = {}
    for waiting in decision.waiting:
        uid = state.jobs[key_of(waiting.job)].uid
        by = waiting.preempted_by or memory.preempted_by.get(uid)
        if by is not None:
            found[uid] = by
    return found


def _remarks(memory: PlanningMemory, state: ClusterState) -> PlanMemory:
    never_fitting = frozenset(key_of(one.job) for one in memory.plan.waiting if one.never_fits)
    return PlanMemory(
        waiting=_reasons(memory, never_fitting, state.now_seconds),
        never_fitting=never_fitting,
        preempted_by=memory.preempted_by,
        separated_from=measured.separated(state, memory),
    )


def _reasons(
    memory: PlanningMemory, never_fitting: frozenset[ObjectKey], now_seconds: float
) -> dict[ObjectKey, str]:
    """Return why each job waits, in the words of before where they are young."""
    reasons = {key_of(one.job): one.reason for one in memory.plan.waiting}
    for key, error in memory.errors.items():
        reasons[key] = f"planning fails on this job and goes on without it: {in_words(error)}"
    before, said = memory.remarks, memory.said_seconds
    memory.said_seconds = {}
    for key, why in reasons.items():
        old, since = before.waiting.get(key), said.get(key, now_seconds)
        same = (key in before.never_fitting) == (key in never_fitting)
        if old is not None and same and now_seconds < since + REWORDED_AFTER_SECONDS:
            reasons[key] = old
        elif old != why:
            since = now_seconds
        memory.said_seconds[key] = since
    return reasons


def _differing(before: PlanMemory, now: PlanMemory, state: ClusterState) -> frozenset[ObjectKey]:
    """Return the jobs of which something else is said."""
    uids = _changed(before.preempted_by, now.preempted_by)
    uids |= _changed(before.separated_from, now.separated_from)
    found = {key for key, job in state.jobs.items() if job.uid in uids} if uids else set()
    found |= _changed(before.waiting, now.waiting)
    return frozenset(found | (before.never_fitting ^ now.never_fitting))


def _changed(old: Mapping[_Key, object], new: Mapping[_Key, object]) -> set[_Key]:
    return {key for key in old.keys() | new.keys() if old.get(key) != new.get(key)}
