"""Devices bound by a ResourceClaim (`resource.k8s.io/v1`) that all members' workers name.

One claim per slot, not a template: a template would give every pod devices of its own. Each
GPU is a request with a name, so that a worker with fewer GPUs than the slot names the first
ones only. The scheduler allocates when the first pod comes, on the node that the pod requires.
"""

from typing import Any, Literal

from harmony_api.conditions import RunningReason
from harmony_api.harmony_group import GroupSlot
from harmony_operator.actions import Delete, Manifest
from harmony_operator.builders.names import slot_object_name
from harmony_operator.builders.ownership import slot_metadata
from harmony_operator.gpu_binding import BindingProblem, SlotBinding
from harmony_operator.gpu_binding.leftovers import left_reservations
from harmony_operator.gpu_binding.none import cpu_binding
from harmony_operator.observed import ClusterState, ObjectKey, ObservedClaim, ObservedGroup
from harmony_operator.settings import OperatorSettings


def request_names(gpus: int) -> tuple[str, ...]:
    """Return the names of a claim's requests; two digits, so that they sort as texts."""
    return tuple(f"gpu-{number:02}" for number in range(gpus))


class ClaimBinding:
    """Binds devices by claims."""

    name: Literal["claim"] = "claim"
    crosses_namespaces = False

    def __init__(self, settings: OperatorSettings) -> None:
        self._device_class = settings.device_class

    def wanted(
        self,
        group: ObservedGroup,
        state: ClusterState,  # noqa: ARG002
    ) -> tuple[Manifest, ...]:
        """Return a claim for every slot with devices."""
        return tuple(self._claim(group, slot) for slot in group.spec.slots if slot.gpus)

    def unwanted(self, group: ObservedGroup, state: ClusterState) -> tuple[Delete, ...]:
        """Return the claims of slots that the group has no more, and of its predecessor's."""
        kept = {claim["metadata"]["name"] for claim in self.wanted(group, state)}
        claims = (
            Delete(kind="ResourceClaim", key=claim.key, uid=claim.uid)
            for claim in state.claims.values()
            if (claim.key.namespace, claim.group) == group.key
            and (claim.key.name not in kept or claim.owner_uid not in ("", group.uid))
            and not claim.deleting
        )
        return (*claims, *left_reservations(group, state))

    def bind(
        self, group: ObservedGroup, slot: int, state: ClusterState
    ) -> SlotBinding | BindingProblem | None:
        """Return how to use the slot; None until its claim exists."""
        used = group.spec.slots[slot]
        if not used.gpus:
            return cpu_binding(used)
        key = ObjectKey(group.key.namespace, slot_object_name(group.key.name, used.name))
        claim = state.claims.get(key)
        if claim is None or claim.deleting or claim.owner_uid not in ("", group.uid):
            return None
        problem = _problem(claim, group, used.node, state)
        if problem is not None:
            return BindingProblem(reason=RunningReason.GPU_BINDING_FAILED, message=problem)
        return SlotBinding(
            slot=used.name,
            node=used.node,
            devices=claim.devices or None,
            claim_name=claim.key.name,
        )

    def _claim(self, group: ObservedGroup, slot: GroupSlot) -> dict[str, Any]:
        exactly = {"deviceClassName": self._device_class, "allocationMode": "ExactCount"}
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": slot_metadata(group, slot, "claim"),
            "spec": {
                "devices": {
                    "requests": [
                        {"name": name, "exactly": {**exactly, "count": 1}}
                        for name in request_names(slot.gpus)
                    ]
                }
            },
        }


def _problem(
    claim: ObservedClaim, group: ObservedGroup, node: str, state: ClusterState
) -> str | None:
    if (claim.group, claim.owner_uid) != (group.key.name, group.uid):
        return (
            f"the ResourceClaim {claim.key.name} exists and is not Harmony's: rename or delete it"
        )
    elsewhere = {
        device.node
        for device in state.devices
        if device.id in claim.devices and device.node not in ("", node)
    }
    if elsewhere:
        return (
            f"the ResourceClaim {claim.key.name} has devices of {', '.join(sorted(elsewhere))}, "
            f"but its slot is on {node}: delete the claim"
        )
    return None
