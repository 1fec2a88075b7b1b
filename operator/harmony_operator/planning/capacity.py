"""What the nodes offer: how many CPU slots, and how many devices of which kind.

A device that somebody else's claim holds is not offered. Where a device plugin hands devices
out, only Harmony's own use of them can be seen; there a reservation that fails tells the rest.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harmony_operator.gpu_binding import BindingName
from harmony_operator.gpu_binding.reservation import failure
from harmony_operator.observed import ClusterState, ObjectKey, ObservedDevice, ObservedNode
from harmony_operator.settings import OperatorSettings

CPU: Final = "cpu"
MEBIBYTE: Final = 2**20
UNNAMED_DEVICE: Final = "gpu"
REFUSED_SECONDS: Final = 300.0
"""So long a node is not asked for GPUs again after it did not give them."""
PRODUCT_LABEL: Final = "nvidia.com/gpu.product"
MEMORY_LABEL: Final = "nvidia.com/gpu.memory"
"""Of one GPU, in MiB; GPU feature discovery sets both."""


@dataclass(frozen=True, kw_only=True)
class Pool:
    """Devices of one kind on one node, or its CPU slots."""

    node: str
    device_kind: str
    count: int
    """How many there are."""
    used_by_others: int = 0
    memory_bytes: int | None = None
    """Of each device, what jobs may use; None: not known, so not limited."""
    closed: str | None = None
    """Why the node takes nobody new, in words."""

    @property
    def is_cpu(self) -> bool:
        """Whether these are CPU slots."""
        return self.device_kind == CPU


@dataclass(frozen=True, kw_only=True)
class Refusal:
    """A node whose device plugin did not give what it should have had."""

    until_seconds: float
    """It is not tried again before."""
    why: str


def refusals(
    state: ClusterState, before: Mapping[str, Refusal]
) -> tuple[Mapping[str, Refusal], frozenset[tuple[ObjectKey, str]]]:
    """Return the nodes that are not tried now, and the slots, by group, that they refused."""
    now = state.now_seconds
    nodes = {node: refusal for node, refusal in before.items() if now < refusal.until_seconds}
    slots = set()
    for one in state.reservations.values():
        failed = failure(one, now)
        group = state.groups.get(ObjectKey(one.key.namespace, one.group))
        if failed is None or group is None:
            continue
        since, problem = failed
        for slot in group.spec.slots:
            if slot.name == one.slot:
                why = f"node {slot.node} did not give {slot.gpus} x GPU: {problem}"
                nodes[slot.node] = Refusal(until_seconds=since + REFUSED_SECONDS, why=why)
                slots.add((group.key, slot.name))
    return nodes, frozenset(slots)


def pools(
    state: ClusterState,
    settings: OperatorSettings,
    binding: BindingName,
    refused: Mapping[str, Refusal],
) -> tuple[Pool, ...]:
    """Return what the nodes offer, by the nodes' names."""
    devices = _devices_by_node(state, settings) if binding == "claim" else {}
    foreign = _held_by_others(state)
    found: list[Pool] = []
    for node in sorted(state.nodes.values(), key=lambda node: node.name):
        closed = _why_closed(node)
        if settings.cpu_slots_per_node:
            count = settings.cpu_slots_per_node
            found.append(Pool(node=node.name, device_kind=CPU, count=count, closed=closed))
        if node.name in refused:
            closed = closed or refused[node.name].why
        if binding == "claim":
            found += _claimable(devices.get(node.name, ()), foreign, closed, settings)
        elif binding == "reservation" and (count := node.allocatable.get(settings.gpu_resource, 0)):
            found.append(_reservable(node, count, closed, settings))
    return tuple(found)


def _devices_by_node(
    state: ClusterState, settings: OperatorSettings
) -> Mapping[str, list[ObservedDevice]]:
    """Return the devices of the class: those of the driver of its name, or all if it has none."""
    named = [device for device in state.devices if device.driver == settings.device_class]
    found: dict[str, list[ObservedDevice]] = defaultdict(list)
    for device in named or state.devices:
        found[device.node].append(device)
    return found


def _held_by_others(state: ClusterState) -> frozenset[str]:
    """Return the devices of claims that belong to no group that exists."""
    ours = {(key.namespace, key.name) for key in state.groups}
    return frozenset(
        device
        for claim in state.claims.values()
        if (claim.key.namespace, claim.group) not in ours
        for device in claim.devices
    )


def _claimable(
    devices: list[ObservedDevice] | tuple[()],
    foreign: frozenset[str],
    closed: str | None,
    settings: OperatorSettings,
) -> Iterator[Pool]:
    kinds = Counter((device.kind, device.memory_bytes) for device in devices)
    for (kind, memory_bytes), count in sorted(kinds.items(), key=lambda item: item[0][0]):
        alike = [one for one in devices if (one.kind, one.memory_bytes) == (kind, memory_bytes)]
        yield Pool(
            node=alike[0].node,
            device_kind=kind or UNNAMED_DEVICE,
            count=count,
            used_by_others=sum(device.id in foreign for device in alike),
            memory_bytes=without_headroom(memory_bytes, settings),
            closed=closed,
        )


def _reservable(
    node: ObservedNode, count: int, closed: str | None, settings: OperatorSettings
) -> Pool:
    mebibytes = node.labels.get(MEMORY_LABEL, "")
    memory_bytes = int(mebibytes) * MEBIBYTE if mebibytes.isdecimal() else None
    return Pool(
        node=node.name,
        device_kind=node.labels.get(PRODUCT_LABEL) or UNNAMED_DEVICE,
        count=count,
        memory_bytes=without_headroom(memory_bytes, settings),
        closed=closed,
    )


def without_headroom(memory_bytes: int | None, settings: OperatorSettings) -> int | None:
    """Return how much of a device's memory jobs may use, in whole MiB; None where not known."""
    if memory_bytes is None:
        return None
    share = -(-memory_bytes * settings.device_memory_headroom_percent // 100)
    left = memory_bytes - max(share, settings.device_memory_headroom_bytes)
    return max(0, left // MEBIBYTE * MEBIBYTE)


def _why_closed(node: ObservedNode) -> str | None:
    """Say why no new pod may come whatever it tolerates.

    Other taints are between a node and each job's template: see node_fit.
    """
    if not node.ready:
        return f"node {node.name} is not ready"
    if not node.schedulable:
        return f"node {node.name} is cordoned"
    if passing := [taint for taint in node.taints if taint.is_passing]:
        return f"node {node.name} has the taint {min(passing)}"
    return None
