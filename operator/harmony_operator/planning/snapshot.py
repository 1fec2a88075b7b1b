"""What the planner is told of a cluster.

A job takes part from the moment its spec was found valid until it is suspended, deleted or at
its end. One that cannot be understood does not stop the planning of others: where it has slots it
keeps them, with those who share them and nobody else, and else it is left out.
A job's profile is the one in its status: it moves only when a measurement has, so plans
do not waver, and a new operator plans with what the last one knew.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from operator import attrgetter
from typing import Any, Final, cast

from harmony_api.conditions import ConditionType
from harmony_api.harmony_group import GroupMember
from harmony_api.job import HarmonyJob
from harmony_api.profile import JobProfile
from harmony_api.sharing import MemoryRange
from harmony_operator.builders.names import member_name
from harmony_operator.builders.placement import tolerate_devices
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.observed import ClusterState, ObjectKey, ObservedGroup, ObservedJob
from harmony_operator.occupants import occupants
from harmony_operator.planning.capacity import CPU, pools, refusals
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.planning.node_fit import barred_nodes, demands
from harmony_operator.planning.slots import free_slots, held_slots, room
from harmony_operator.planning.stuck_workers import avoided_nodes, stuck_workers
from harmony_operator.policies.conditions import condition, holds
from harmony_operator.settings import OperatorSettings
from harmony_planner.snapshot import CurrentGroup, Job, Slot, Snapshot, queue_place
from harmony_planner.triggers import usable


def planning_snapshot(
    state: ClusterState, settings: OperatorSettings, binding: GpuBinding, memory: PlanningMemory
) -> Snapshot:
    """Return the snapshot; jobs and groups are named `namespace/name`."""
    listed = {one.job_uid for group in state.groups.values() for one in group.spec.members}
    observed = {
        job.uid: job for job in state.jobs.values() if takes_part(job, known=job.uid in listed)
    }
    places = dict(_places(state, observed, binding))
    memory.stuck = stuck_workers(state, memory.stuck)
    avoided = avoided_nodes(memory.stuck, state.now_seconds)
    names = {job.uid: member_name(*job.key) for job in state.jobs.values()}
    barred: dict[str, Mapping[str, str]] = {}
    jobs, errors = [], {}
    for one in sorted(observed.values(), key=attrgetter("key")):
        try:
            demanded = _demands(one, settings)
            if demanded not in barred:
                barred[demanded] = _barred(demanded, state, memory.barred)
            job = _job(one, places.get(one.uid), state, binding, memory, names)
            if settings.queue_order == "ShortestFirst":
                job = replace(job, service_seconds=_service_seconds(one, job))
        except Exception as error:  # whatever it is, the other jobs are planned
            errors[one.key] = error
            if (place := places.get(one.uid)) is not None:
                jobs.append(_unmoved(one, place, binding))
        else:
            unschedulable = avoided.get(one.key, {})
            jobs.append(replace(job, barred=barred[demanded], unschedulable=unschedulable))
    memory.barred, memory.errors = barred, errors
    memory.refused, refused_slots = refusals(state, memory.refused)
    offered = pools(state, settings, binding.name, memory.refused)
    users = occupants(state)
    members: dict[str, set[str]] = defaultdict(set)
    for uid, (group, member) in places.items():
        for index in member.slot_indices:
            members[group.spec.slots[index].name].add(uid)
    uids = {slot: frozenset(those) for slot, those in members.items()}
    held = held_slots(state, offered, users, uids, refused_slots)
    held = _closed_to_others(held, errors, places)
    queue = sorted(
        jobs,
        key=lambda job: (job.current_group is not None, queue_place(job)),
    )
    groups = {group.key: group for group, _ in places.values()}
    return Snapshot(
        jobs=tuple(jobs),
        slots=(*held, *free_slots(offered, held, members, users, queue)),
        groups=tuple(
            CurrentGroup(
                name=member_name(*key),
                slots=tuple(slot.name for slot in groups[key].spec.slots),
                correction=memory.speeds.corrections.get(member_name(*key), 1.0),
            )
            for key in sorted(groups)
        ),
        network=settings.network,
        room=room(offered, (job.gpus_per_worker for job in jobs)),
    )


def takes_part(job: ObservedJob, *, known: bool = False) -> bool:
    """Whether the job wants slots, and was found to be one that can be carried out.

    A job that is `known`, for a group lists it, was found so even if its status does not say it
    yet.
    """
    conditions = job.status.conditions
    ended = holds(conditions, ConditionType.SUCCEEDED) or holds(conditions, ConditionType.FAILED)
    wanted = job.job is not None and not job.job.spec.suspend and not job.deleting and not ended
    valid = condition(conditions, ConditionType.VALID)
    return wanted and (known if valid is None else valid.status == "True")


def _places(
    state: ClusterState, observed: Mapping[str, ObservedJob], binding: GpuBinding
) -> Iterator[tuple[str, tuple[ObservedGroup, GroupMember]]]:
    """Yield each job that takes part with its place, where a group lists it.

    A group may be of a time when devices were bound across namespaces: now its members cannot
    reach them, and need other places.
    """
    for key in sorted(state.groups, reverse=True):
        group = state.groups[key]
        has_devices = any(slot.gpus for slot in group.spec.slots)
        anywhere = binding.crosses_namespaces or not has_devices
        for member in group.spec.members if not group.deleting else ():
            if member.job_uid in observed and (anywhere or member.namespace == key.namespace):
                yield member.job_uid, (group, member)


def _job(
    observed: ObservedJob,
    place: tuple[ObservedGroup, GroupMember] | None,
    state: ClusterState,
    binding: GpuBinding,
    memory: PlanningMemory,
    names: Mapping[str, str],
) -> Job:
    assert observed.job is not None
    spec = observed.job.spec
    name = member_name(*observed.key)
    gpus = spec.workers.gpus_per_worker
    apart = {*observed.status.separated_from, *memory.separated.get(observed.uid, ())}
    kind = CPU
    if place is not None:
        group, member = place
        kind = group.spec.slots[member.slot_indices[0]].device_kind
    footprint, minimum = _per_device(spec.sharing.device_memory, gpus)
    return Job(
        name=name,
        submitted=int(observed.created_seconds),
        priority=_priority(observed.job, state),
        namespace="" if binding.crosses_namespaces else observed.key.namespace,
        workers=spec.workers.least,
        gpus_per_worker=gpus,
        policy=spec.sharing.policy,
        max_slowdown_percent=spec.sharing.max_slowdown_percent,
        footprint_bytes=footprint,
        minimum_bytes=minimum,
        profile=_profile(observed, kind),
        separated_from=frozenset(names[uid] for uid in apart if uid in names),
        current_group=None if place is None else member_name(*place[0].key),
        overdue=place is None
        and state.now_seconds > observed.created_seconds + OVERDUE_AFTER_SECONDS,
    )


def _unmoved(
    observed: ObservedJob, place: tuple[ObservedGroup, GroupMember], binding: GpuBinding
) -> Job:
    """Return a job as its place alone tells of it: it stays, whoever comes and however slow."""
    group, member = place
    slots = [group.spec.slots[index] for index in member.slot_indices]
    gpus, memory_bytes = slots[0].gpus, member.device_memory_bytes
    return Job(
        name=member_name(*observed.key),
        submitted=int(observed.created_seconds),
        priority=_ABOVE_ALL,
        namespace="" if binding.crosses_namespaces else observed.key.namespace,
        workers=len(slots),
        gpus_per_worker=gpus,
        max_slowdown_percent=_ABOVE_ALL,
        footprint_bytes=None if memory_bytes is None else memory_bytes // max(1, gpus),
        profile=next(filter(usable, observed.status.profiles), None),
        current_group=member_name(*group.key),
    )


OVERDUE_AFTER_SECONDS: Final = 3600.0
"""So old is a job without a place for which free slots are kept."""
_ABOVE_ALL: Final = 2**31


def _closed_to_others(
    held: Iterable[Slot],
    errors: Mapping[ObjectKey, Exception],
    places: Mapping[str, tuple[ObservedGroup, GroupMember]],
) -> tuple[Slot, ...]:
    """Return the slots; those of jobs on which planning fails take nobody new."""
    closed: dict[str, str] = {}
    for group, member in places.values():
        if (key := ObjectKey(member.namespace, member.job)) in errors:
            why = f"planning fails on {member_name(*key)}"
            closed |= {group.spec.slots[index].name: why for index in member.slot_indices}
    return tuple(
        slot if slot.closed else replace(slot, closed=closed.get(slot.name)) for slot in held
    )


def _barred(
    demanded: str, state: ClusterState, before: Mapping[str, Mapping[str, str]]
) -> Mapping[str, str]:
    """Return the nodes where pods may not run whose template demands this.

    What has not changed is the same object, so that snapshots are compared fast.
    """
    known, barred = before.get(demanded), barred_nodes(demanded, state.nodes.values())
    return known if known is not None and known == barred else barred


def _demands(job: ObservedJob, settings: OperatorSettings) -> str:
    assert job.job is not None
    gpus = job.job.spec.workers.gpus_per_worker
    more = (tolerate_devices(settings.gpu_resource),) if gpus else ()
    return demands(cast("Any", job.raw_spec)["workers"]["template"], more)


def _priority(job: HarmonyJob, state: ClusterState) -> int:
    name = job.spec.priority_class_name
    return state.default_priority if name is None else state.priorities.get(name, 0)


def _profile(job: ObservedJob, kind: str) -> JobProfile | None:
    """Return what is known best: measured on this kind of device, on another one, or a hint."""
    measured = [profile for profile in job.status.profiles if usable(profile)]
    measured.sort(key=lambda profile: (profile.device_kind == kind, profile.iterations))
    if measured:
        return measured[-1]
    assert job.job is not None
    hint = job.job.spec.profile
    return None if hint is None else hint.to_profile()


def _service_seconds(observed: ObservedJob, job: Job) -> float:
    """Return what the job still needs of its slots when it is alone, in all.

    0 before it is measured, so that it soon is; without end where it does not say its iterations.
    """
    assert observed.job is not None
    progress, iterations = observed.status.progress, observed.job.spec.iterations
    if job.profile is None:
        return 0.0
    if iterations is None:
        return math.inf
    left = max(0, iterations - (progress.iteration if progress is not None else 0))
    return left * job.profile.iteration_seconds * job.workers


def _per_device(memory: MemoryRange | None, gpus: int) -> tuple[int | None, int | None]:
    """Return footprint and minimum on each of a worker's devices, which it uses alike."""
    if memory is None:
        return None, None
    devices = max(1, gpus)
    return -(-memory.footprint_bytes // devices), -(-memory.minimum_bytes // devices)
