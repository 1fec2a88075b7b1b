"""What is mirrored of the cluster: the kinds, and what is kept of an object of each."""

from dataclasses import dataclass
from typing import Literal

from harmony_operator import parsing
from harmony_operator.observed import (
    ObservedClaim,
    ObservedDevice,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    ObservedReservation,
    ObservedService,
    VolumeClaim,
)
from harmony_operator.parsing import Raw

MirroredKind = Literal[
    "HarmonyJob",
    "HarmonyGroup",
    "Pod",
    "Service",
    "Node",
    "ResourceClaim",
    "ResourceSlice",
    "PriorityClass",
    "PersistentVolumeClaim",
]


@dataclass(frozen=True)
class Slice:
    """A ResourceSlice: the devices that it adds to a generation of its pool."""

    pool: str
    generation: int
    devices: tuple[ObservedDevice, ...]


@dataclass(frozen=True)
class Priority:
    """A PriorityClass."""

    value: int
    is_default: bool


Observed = (
    ObservedJob
    | ObservedGroup
    | ObservedPod
    | ObservedReservation
    | ObservedNode
    | ObservedClaim
    | ObservedService
    | Slice
    | Priority
    | VolumeClaim
)
"""One mirrored object."""


def parse(kind: MirroredKind, raw: Raw) -> Observed | None:
    """Return what is kept of an object; None where it is not understood, or not Harmony's."""
    match kind:
        case "HarmonyJob":
            return parsing.parse_job(raw)
        case "HarmonyGroup":
            return parsing.parse_group(raw)
        case "Pod":
            return parsing.parse_pod(raw) or parsing.parse_reservation(raw)
        case "Service":
            return parsing.parse_service(raw)
        case "Node":
            return parsing.parse_node(raw)
        case "ResourceClaim":
            return parsing.parse_claim(raw)
        case "ResourceSlice":
            return Slice(*parsing.parse_slice(raw))
        case "PriorityClass":
            return Priority(raw.get("value") or 0, bool(raw.get("globalDefault")))
        case "PersistentVolumeClaim":
            return parsing.parse_volume_claim(raw)
