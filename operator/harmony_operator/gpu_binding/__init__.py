"""How the members of a group come to use the same devices, in one interface.

Kubernetes hands a device to one pod or claim; sharing it is Harmony's idea. So the devices of
a slot are bound once per group, by an object that the group owns, and every member's worker
is pointed at them. What that object is depends on what the cluster serves: `dra` a claim,
`reservation` a pod; a CPU slot needs none.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

from harmony_operator.actions import Delete, Manifest
from harmony_operator.observed import ClusterState, ObservedGroup

BindingName = Literal["claim", "reservation", "none"]


@dataclass(frozen=True, kw_only=True)
class SlotBinding:
    """What a worker pod needs in order to use a slot."""

    slot: str
    """Name of the slot."""
    node: str
    devices: tuple[str, ...] | None
    """Ids that COMP permits are keyed by; None: not known until a first pod is scheduled."""
    claim_name: str | None = None
    """The claim that the pod names; it is in the pod's namespace."""
    reservation_pod: str | None = None
    """The pod that holds the devices; it is in the group's namespace."""
    visible_devices: str | None = None
    """Comma-separated UUIDs that the pod's environment names."""
    runtime_class: str | None = None
    """The RuntimeClass that acts on `visible_devices`."""


@dataclass(frozen=True, kw_only=True)
class BindingProblem:
    """Why a slot cannot be bound as things are."""

    reason: str
    """Of the condition Running."""
    message: str


class GpuBinding(Protocol):
    """Binds the devices of groups; pure, so all answers follow from what is seen."""

    @property
    def name(self) -> BindingName:
        """What binds."""

    @property
    def crosses_namespaces(self) -> bool:
        """Whether jobs of several namespaces can share a slot with devices."""

    def wanted(self, group: ObservedGroup, state: ClusterState) -> tuple[Manifest, ...]:
        """Return the objects that bind the group's slots: in its namespace, owned by it."""

    def unwanted(self, group: ObservedGroup, state: ClusterState) -> tuple[Delete, ...]:
        """Return what shall go: binding objects of slots that are gone, and failed ones.

        So shall those of another binding, once nobody uses them.

        A failed object stays for RETRY_SECONDS as the record of its failure, so that there is
        never more than one try in that time.
        """

    def bind(
        self, group: ObservedGroup, slot: int, state: ClusterState
    ) -> SlotBinding | BindingProblem | None:
        """Return how to use the slot of this index; None: its object is not ready yet."""
