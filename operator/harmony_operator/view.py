"""Everything that a decision about one job may rest on, cut out of what is seen of the cluster.

A JobView is small and complete: reconcile is a function of it and of the settings alone, so a
test can write down any situation that a cluster gets into.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from harmony_api.harmony_group import GroupMember
from harmony_api.profile import JobProfile
from harmony_operator.builders.names import member_name
from harmony_operator.builders.volume_claim import own_volume_claims
from harmony_operator.gpu_binding import BindingProblem, GpuBinding, SlotBinding
from harmony_operator.observed import (
    ApiProblem,
    ClusterState,
    LiveWorker,
    ObjectKey,
    ObservedGroup,
    ObservedJob,
    ObservedPod,
    ObservedService,
    VolumeClaim,
)
from harmony_operator.occupants import not_left_yet, occupants
from harmony_operator.plan_memory import PlanMemory


@dataclass(frozen=True, kw_only=True)
class JobView:
    """One job and what concerns it."""

    job: ObservedJob
    now_seconds: float
    pods: tuple[ObservedPod, ...] = ()
    """Its workers and servers, also those that are ending; oldest first."""
    foreign_pod_names: frozenset[str] = frozenset()
    """Pods of an earlier job of the same name, which hold their names until they are gone."""
    left_behind: tuple[str, ...] = ()
    """Other objects of an earlier job of the same name that are not gone yet, in words."""
    service_exists: bool = False
    group: ObservedGroup | None = None
    """The one that lists it as a member."""
    bindings: tuple[SlotBinding | BindingProblem | None, ...] = ()
    """The slot of each worker by index; None while its devices are not known."""
    old_bindings: Mapping[str, SlotBinding] = field(default_factory=dict)
    """By pod: the slot that a worker is on although the plan wants it elsewhere, where it is still
    bound."""
    occupied: Mapping[int, str] = field(default_factory=dict)
    """By worker: who is still on its slot without being a member of the group, in words."""
    waiting: str | None = None
    """Why the last plan gave it no slots; None: no plan has looked at it."""
    never_fits: bool = False
    """No slot of the cluster could hold it even if all were free."""
    preempted_by: str | None = None
    """`namespace/name` of the job that took its slots."""
    separated_from: frozenset[str] | None = None
    """Uids of jobs that the planner keeps it apart from; None: those in its status."""
    unreachable_nodes: frozenset[str] = frozenset()
    """Nodes of its pods that do not answer or are gone."""
    priority_class_exists: bool = True
    claim_access_modes: frozenset[str] | None = None
    """Of its checkpoint's volume claim; None: it has none, or the claim is not seen."""
    volume_claims: frozenset[str] = frozenset()
    """Names of its own volume claims that exist."""
    live: Mapping[int, LiveWorker] = field(default_factory=dict)
    profiles: Mapping[str, JobProfile] = field(default_factory=dict)
    """Of the group's members, by `namespace/name`; see builders.names.member_name."""
    problem: ApiProblem | None = None
    """A write of the last pass that the API server refused."""

    @property
    def member(self) -> GroupMember | None:
        """The job's place in its group."""
        return None if self.group is None else member_of(self.group, self.job)


def view_of(
    key: ObjectKey, state: ClusterState, binding: GpuBinding, memory: PlanMemory
) -> JobView | None:
    """Return what concerns one job; None where there is no job of this name."""
    job = state.jobs.get(key)
    if job is None:
        return None
    carrying = sorted(
        (pod for pod in state.pods.values() if (pod.key.namespace, pod.job) == key),
        key=lambda pod: (pod.created_seconds, pod.key),
    )
    pods = tuple(pod for pod in carrying if pod.job_uid == job.uid)
    group = next(
        (one for one in state.groups.values() if not one.deleting and member_of(one, job)), None
    )
    spec = job.job.spec if job.job else None
    priority_class = spec and spec.priority_class_name
    claim_name = spec and spec.checkpoint and spec.checkpoint.volume_claim_name
    checkpoint = state.volume_claims.get(ObjectKey(key.namespace, claim_name or ""))
    claims = _own_claims(job, state)
    service = state.services.get(key)
    return JobView(
        job=job,
        now_seconds=state.now_seconds,
        pods=pods,
        foreign_pod_names=frozenset(pod.key.name for pod in carrying if pod.job_uid != job.uid),
        left_behind=_left_behind(job, service, claims),
        service_exists=service is not None and service.owner_uid == job.uid,
        group=group,
        bindings=_bindings(job, group, state, binding),
        old_bindings={
            pod.key.name: old
            for pod in pods
            if group is not None and (old := _old_binding(pod, group, state, binding)) is not None
        },
        occupied=_occupied(job, group, state),
        waiting=memory.waiting.get(key),
        never_fits=key in memory.never_fitting,
        preempted_by=memory.preempted_by.get(job.uid),
        separated_from=memory.separated_from.get(job.uid),
        unreachable_nodes=frozenset(pod.node for pod in pods if pod.node) - _answering(state),
        priority_class_exists=not priority_class or priority_class in state.priorities,
        claim_access_modes=None if checkpoint is None else checkpoint.access_modes,
        volume_claims=frozenset(
            name for name, claim in claims.items() if claim.owner_uid == job.uid
        ),
        live=state.live.get(key, {}),
        profiles=_member_profiles(group, state),
        problem=state.problems.get(key),
    )


def _own_claims(job: ObservedJob, state: ClusterState) -> dict[str, VolumeClaim]:
    """Return what has the names of the volume claims that its servers have of their own."""
    names = () if job.job is None else own_volume_claims(job)
    keys = (ObjectKey(job.key.namespace, name) for name in names)
    return {key.name: state.volume_claims[key] for key in keys if key in state.volume_claims}


def _left_behind(
    job: ObservedJob, service: ObservedService | None, claims: Mapping[str, VolumeClaim]
) -> tuple[str, ...]:
    found = [] if service is None else [(f"Service {service.key.name}", service.owner_uid)]
    found += [(f"PersistentVolumeClaim {name}", one.owner_uid) for name, one in claims.items()]
    return tuple(words for words, owner_uid in found if owner_uid not in ("", job.uid))


def _bindings(
    job: ObservedJob, group: ObservedGroup | None, state: ClusterState, binding: GpuBinding
) -> tuple[SlotBinding | BindingProblem | None, ...]:
    member = None if group is None else member_of(group, job)
    if group is None or member is None:
        return ()
    return tuple(binding.bind(group, slot, state) for slot in member.slot_indices)


def _old_binding(
    pod: ObservedPod, now: ObservedGroup, state: ClusterState, binding: GpuBinding
) -> SlotBinding | None:
    spaces = {pod.key.namespace, now.key.namespace}
    for group in (state.groups.get(ObjectKey(space, pod.group)) for space in spaces):
        for index, slot in enumerate(group.spec.slots) if group and not group.deleting else ():
            found = binding.bind(group, index, state) if group and slot.name == pod.slot else None
            if isinstance(found, SlotBinding):
                return found
    return None


def _occupied(job: ObservedJob, group: ObservedGroup | None, state: ClusterState) -> dict[int, str]:
    member = None if group is None else member_of(group, job)
    if group is None or member is None:
        return {}
    uids = {one.job_uid for one in group.spec.members}
    there = occupants(state)
    slots = (group.spec.slots[slot].name for slot in member.slot_indices)
    found = (
        (index, not_left_yet(slot, there.get(slot, ()), uids)) for index, slot in enumerate(slots)
    )
    return {index: who for index, who in found if who is not None}


def member_of(group: ObservedGroup, job: ObservedJob) -> GroupMember | None:
    """Return the job's place in the group."""
    return next((one for one in group.spec.members if one.job_uid == job.uid), None)


def _answering(state: ClusterState) -> frozenset[str]:
    return frozenset(node.name for node in state.nodes.values() if node.ready)


def _member_profiles(group: ObservedGroup | None, state: ClusterState) -> dict[str, JobProfile]:
    """Return what each member costs on the slots' kind of device: as measured, else as hinted."""
    if group is None:
        return {}
    kind = group.spec.slots[0].device_kind
    found = {}
    for member in group.spec.members:
        job = state.jobs.get(ObjectKey(member.namespace, member.job))
        profile = None if job is None else _profile(job, kind)
        if profile is not None:
            found[member_name(member.namespace, member.job)] = profile
    return found


def _profile(job: ObservedJob, device_kind: str) -> JobProfile | None:
    for profile in job.status.profiles:
        if profile.device_kind == device_kind:
            return profile
    hint = job.job.spec.profile if job.job else None
    return None if hint is None else hint.to_profile()
