"""What each group's status says of how its plan turned out.

A measured figure is written when it has moved by more than a tenth, so that measuring does not
mean writing.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final

from harmony_api.harmony_group import GroupColumns, HarmonyGroupSpec, HarmonyGroupStatus
from harmony_operator.actions import ReplaceGroupStatus, Step
from harmony_operator.builders.names import member_name
from harmony_operator.observed import ClusterState, ObjectKey, ObservedGroup
from harmony_operator.planning.memory import PlanningMemory
from harmony_planner.group_speed import Count
from harmony_planner.snapshot import Group
from harmony_planner.wording import milliseconds

MOVED_BY: Final = 0.1
MICROSECONDS: Final = 1e6
LONGEST_COLUMN: Final = 1024


def status_changes(
    state: ClusterState,
    memory: PlanningMemory,
    counts: Mapping[str, Count],
    changing: Collection[ObjectKey],
) -> tuple[Step, ...]:
    """Return the writes that make the status of each planned group true.

    Groups that are `changing` follow when their new spec has been seen.
    """
    planned = {group.name: group for group in memory.plan.groups}
    cycles = memory.speeds.measured_cycles(counts)
    found: list[Step] = []
    for key, observed in sorted(state.groups.items()):
        name = member_name(*key)
        group = planned.get(name)
        if group is None or observed.deleting or key in changing:
            continue
        correction = memory.speeds.corrections.get(name, 1.0)
        status = _status(group, observed, cycles.get(name), correction)
        if status != observed.status:
            found.append(ReplaceGroupStatus(key=key, status=status.to_dict()))
    return tuple(found)


def _status(
    group: Group, observed: ObservedGroup, cycle_seconds: float | None, correction: float
) -> HarmonyGroupStatus:
    before = observed.status
    prediction = group.prediction if len(group.members) > 1 else None
    predicted = round(prediction.cycle_seconds * MICROSECONDS) if prediction else None
    same = predicted is not None and before.predicted_cycle_microseconds == predicted
    measured = before.measured_cycle_microseconds if same else None
    if cycle_seconds is not None:
        measured = _unless_near(measured, round(cycle_seconds * MICROSECONDS))
    percent = None if correction == 1 else round(100 * correction)
    if percent is not None:
        percent = _unless_near(before.correction_percent, percent)
    return HarmonyGroupStatus(
        predicted_cycle_microseconds=predicted,
        measured_cycle_microseconds=measured,
        correction_percent=percent,
        compute_utilisation_percent=(
            round(100 * prediction.compute_utilisation) if prediction else None
        ),
        network_utilisation_percent=(
            round(100 * prediction.network_utilisation) if prediction else None
        ),
        slots=before.slots,
        conditions=before.conditions,
        columns=GroupColumns(
            members=_members(observed.spec),
            slots=_slots(observed.spec),
            predicted=_column(predicted),
            measured=_column(measured),
        ),
    )


def _unless_near(before: int | None, now: int) -> int:
    """Return the new value, or the old one where it differs by measurement only."""
    if before is not None and abs(now - before) <= MOVED_BY * before:
        return before
    return now


def _members(spec: HarmonyGroupSpec) -> str:
    names = ", ".join(f"{member.namespace}/{member.job}" for member in spec.members)
    return names if len(names) <= LONGEST_COLUMN else f"{names[: LONGEST_COLUMN - 3]}..."


def _slots(spec: HarmonyGroupSpec) -> str:
    """Return the slots as in `2 x 1 GPU`."""
    sizes = Counter(slot.gpus for slot in spec.slots)
    return ", ".join(
        f"{count} x {'CPU' if not gpus else '1 GPU' if gpus == 1 else f'{gpus} GPUs'}"
        for gpus, count in sorted(sizes.items())
    )


def _column(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    return milliseconds(microseconds / MICROSECONDS).replace(" ", "")
