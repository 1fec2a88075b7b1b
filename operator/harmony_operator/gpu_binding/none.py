"""No binding: CPU slots, which are a node and nothing more, and clusters without devices."""

from typing import Literal

from harmony_api.conditions import RunningReason
from harmony_api.harmony_group import GroupSlot
from harmony_operator.actions import Delete, Manifest
from harmony_operator.gpu_binding import BindingProblem, SlotBinding
from harmony_operator.observed import ClusterState, ObservedGroup


def cpu_binding(slot: GroupSlot) -> SlotBinding:
    """Return how a CPU slot is used, whatever binds devices: COMP permits bear its name."""
    return SlotBinding(slot=slot.name, node=slot.node, devices=(slot.name,))


class NoBinding:
    """Binds CPU slots only."""

    name: Literal["none"] = "none"
    crosses_namespaces = True

    def wanted(
        self,
        group: ObservedGroup,  # noqa: ARG002
        state: ClusterState,  # noqa: ARG002
    ) -> tuple[Manifest, ...]:
        """Return nothing."""
        return ()

    def unwanted(
        self,
        group: ObservedGroup,  # noqa: ARG002
        state: ClusterState,  # noqa: ARG002
    ) -> tuple[Delete, ...]:
        """Return nothing."""
        return ()

    def bind(
        self,
        group: ObservedGroup,
        slot: int,
        state: ClusterState,  # noqa: ARG002
    ) -> SlotBinding | BindingProblem | None:
        """Return how to use the slot, or that nothing binds its devices."""
        used = group.spec.slots[slot]
        if not used.gpus:
            return cpu_binding(used)
        return BindingProblem(
            reason=RunningReason.GPU_BINDING_FAILED,
            message=f"slot {used.name} has GPUs, and the operator's GPU binding is none: "
            "set gpuBinding to claim or reservation",
        )
