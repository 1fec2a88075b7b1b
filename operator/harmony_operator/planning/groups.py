"""From a plan to HarmonyGroup objects, which are the plan that lasts.

A group gets its name once, when it begins: a digest of its first member and its slots, so that
an operator that was killed before it saw the answer tries the same name again. It keeps the
name while members come and go. A group without members is deleted when no worker is left that
was made for it, because what binds its devices goes with it.
"""

from collections.abc import Mapping
from dataclasses import replace
from hashlib import sha256
from itertools import count
from typing import Final

from harmony_api.harmony_group import GroupMember, GroupSlot, HarmonyGroupSpec
from harmony_operator.actions import Create, Delete, ReplaceSpec, Step
from harmony_operator.builders.group import build_group
from harmony_operator.builders.names import member_name
from harmony_operator.observed import ClusterState, ObjectKey, ObservedGroup
from harmony_operator.occupants import occupants
from harmony_operator.sentences import without_figures
from harmony_operator.settings import OperatorSettings
from harmony_planner.snapshot import Group, Job, Plan, Slot, Snapshot

NAME_LENGTH: Final = 5
NAME_LETTERS: Final = "bcdfghjklmnpqrstvwxz2456789"
"""As in the names of pods: no words come out of them."""
LONGEST_REASON: Final = 1024


def named(
    plan: Plan, state: ClusterState, settings: OperatorSettings, *, crosses_namespaces: bool
) -> Plan:
    """Return the plan with the new groups named as their objects shall be, `namespace/name`."""
    taken = {member_name(*key) for key in state.groups}
    groups = []
    for group in plan.groups:
        if group.name not in taken:
            first = key_of(group.members[0].job)
            namespace = settings.system_namespace if crosses_namespaces else first.namespace
            beginning = "|".join((state.jobs[first].uid, *group.slots))
            name = next(
                name
                for n in count()
                if (name := member_name(namespace, _name(f"{n}|{beginning}"))) not in taken
            )
            taken.add(name)
            groups.append(replace(group, name=name))
        else:
            groups.append(group)
    return replace(plan, groups=tuple(groups))


def group_changes(
    plan: Plan, snapshot: Snapshot, state: ClusterState, settings: OperatorSettings
) -> tuple[Step, ...]:
    """Return what makes the groups equal to a plan; nothing where they are.

    The plan is `named`, and made of the snapshot, which may be older than the state. Groups that
    only lose members come before those that get them.
    """
    slots = {slot.name: slot for slot in snapshot.slots}
    jobs = {job.name: job for job in snapshot.jobs}
    planned = {key_of(group.name): group for group in plan.groups}
    planned_slots = {slot for group in plan.groups for slot in group.slots}
    used = {(pod.group, slot) for slot, pods in occupants(state).items() for pod in pods}
    losing: list[Step] = []
    getting: list[Step] = []
    for key, before in sorted(state.groups.items()):
        if before.deleting:
            continue
        in_use = tuple(slot for slot in before.spec.slots if (key.name, slot.name) in used)
        if key in planned:
            leftover = tuple(slot for slot in in_use if slot.name not in planned_slots)
            spec = _spec(planned.pop(key), before.spec, leftover, slots, jobs, state, settings)
            lost_only = _uids(spec) < _uids(before.spec)
            (losing if lost_only else getting).extend(_replaced(before, spec))
        elif in_use:
            losing += _replaced(before, before.spec.model_copy(update={"members": ()}))
        else:
            losing.append(Delete(kind="HarmonyGroup", key=key, uid=before.uid))
    for key, group in planned.items():
        spec = _spec(group, None, (), slots, jobs, state, settings)
        getting.append(Create(build_group(key.namespace, key.name, spec)))
    return (*losing, *getting)


def key_of(name: str) -> ObjectKey:
    """Return where the object of a planner's name lives."""
    namespace, _, own = name.partition("/")
    return ObjectKey(namespace, own)


def _spec(
    group: Group,
    before: HarmonyGroupSpec | None,
    leftover: tuple[GroupSlot, ...],
    slots: Mapping[str, Slot],
    jobs: Mapping[str, Job],
    state: ClusterState,
    settings: OperatorSettings,
) -> HarmonyGroupSpec:
    """Return the group's spec; `leftover` slots stay in it until their last worker has left.

    A slot keeps its index, by which what binds its devices is named.
    """
    kept = {*group.slots, *(slot.name for slot in leftover)}
    its_slots = [slot for slot in before.slots if slot.name in kept] if before else []
    had = {slot.name for slot in its_slots}
    its_slots += [_slot(slots[name]) for name in group.slots if name not in had]
    indices = {slot.name: index for index, slot in enumerate(its_slots)}
    members = []
    for member in group.members:
        key = key_of(member.job)
        devices = max(1, jobs[member.job].gpus_per_worker)
        share = member.memory_bytes
        members.append(
            GroupMember(
                job=key.name,
                namespace=key.namespace,
                job_uid=state.jobs[key].uid,
                slot_indices=tuple(indices[name] for name in member.slots),
                order=member.order,
                rounds=member.rounds,
                device_memory_bytes=None if share is None else share * devices,
                reason=_shortened(member.reason),
            )
        )
    return HarmonyGroupSpec(
        generation=before.generation if before else 1,
        network=settings.network,
        slots=tuple(its_slots),
        members=tuple(members),
    )


def _slot(slot: Slot) -> GroupSlot:
    return GroupSlot(name=slot.name, node=slot.node, gpus=slot.gpus, device_kind=slot.device_kind)


def _replaced(before: ObservedGroup, spec: HarmonyGroupSpec) -> list[Step]:
    """Return the change of a group's spec, if it is one: figures in a sentence alone are none."""
    if spec == before.spec or _without_figures(spec) == _without_figures(before.spec):
        return []
    newer = spec.model_copy(update={"generation": before.spec.generation + 1})
    return [ReplaceSpec(key=before.key, spec=newer.to_dict())]


def _without_figures(spec: HarmonyGroupSpec) -> HarmonyGroupSpec:
    members = (
        member.model_copy(update={"reason": without_figures(member.reason)})
        for member in spec.members
    )
    return spec.model_copy(update={"members": tuple(members)})


def _uids(spec: HarmonyGroupSpec) -> frozenset[str]:
    return frozenset(member.job_uid for member in spec.members)


def _shortened(reason: str) -> str:
    return reason if len(reason) <= LONGEST_REASON else f"{reason[: LONGEST_REASON - 3]}..."


def _name(beginning: str) -> str:
    digest = int.from_bytes(sha256(beginning.encode()).digest()[:8])
    letters = []
    for _ in range(NAME_LENGTH):
        digest, letter = divmod(digest, len(NAME_LETTERS))
        letters.append(NAME_LETTERS[letter])
    return f"g-{''.join(letters)}"
