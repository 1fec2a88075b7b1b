"""Node plans: a group's plan as one worker's sidecar reads it.

All sidecars of a group on one node get the same members, those of its other slots there
included: they share the node's link, and the node's arbiter keeps one order per group.
"""

import json
from collections.abc import Iterator, Mapping

from harmony_api.harmony_group import GroupMember
from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.profile import JobProfile
from harmony_operator.builders.names import member_name
from harmony_operator.builders.pod import valid_spec
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedGroup, ObservedJob


def plan_for(
    job: ObservedJob,
    group: ObservedGroup,
    binding: SlotBinding,
    profiles: Mapping[str, JobProfile],
) -> str | None:
    """Return the node plan of the job's worker on a slot, as JSON; None while devices are unknown.

    `profiles` are those of the group's members on the slot's kind of device, by
    `names.member_name`; one that is missing is taken as not measured yet. They should be
    those that are written down, so that plans do not change with every measurement.
    """
    if binding.devices is None:
        return None
    gpus = valid_spec(job).workers.gpus_per_worker
    share = next(one for one in group.spec.members if one.job_uid == job.uid)
    plan = NodePlan(
        group=group.uid,
        generation=group.spec.generation,
        devices=binding.devices[:gpus] if gpus else binding.devices,
        members=tuple(
            planned
            for member in group.spec.members
            for planned in _planned(member, group, binding.node, profiles)
        ),
        device_memory_bytes=share.device_memory_bytes,
        network=group.spec.network,
    )
    return plan.model_dump_json(by_alias=True, exclude_none=True)


def stopping(plan_json: str) -> str:
    """Return the plan with its stop set, or as it is where that is set already.

    The generation stays: another one would make the arbiter prefer this pod's members to
    those of the group's next plan.
    """
    plan = json.loads(plan_json)
    if plan.get("stop"):
        return plan_json
    return json.dumps({**plan, "stop": True}, separators=(",", ":"))


def _planned(
    member: GroupMember, group: ObservedGroup, node: str, profiles: Mapping[str, JobProfile]
) -> Iterator[PlannedMember]:
    """Yield the member's workers on the node."""
    name = member_name(member.namespace, member.job)
    profile = profiles.get(name)
    compute = network = 0.0
    if profile is not None:
        compute = profile.compute_seconds
        network = max(profile.pull_microseconds, profile.push_microseconds) / 1e6
    for worker, slot in enumerate(member.slot_indices):
        if group.spec.slots[slot].node == node:
            yield PlannedMember(
                job=name,
                worker=worker,
                order=member.order,
                rounds=member.rounds,
                compute_seconds=compute,
                network_seconds=network,
            )
