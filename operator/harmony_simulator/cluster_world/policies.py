"""The policies of this world, by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.cluster_world.crowded import (
    NAIVE_JOBS_PER_SLOT,
    PARTITIONS,
    Crowded,
    fighting,
    partitioned,
)
from harmony_simulator.cluster_world.harmony import Harmony
from harmony_simulator.cluster_world.own_slots import (
    OwnSlots,
    remaining_seconds,
    remaining_service,
    submitted,
)
from harmony_simulator.cluster_world.world import Arranger, ClusterPolicy

_ARRANGERS: Final[Mapping[str, Callable[[Conditions], Arranger]]] = MappingProxyType(
    {
        "harmony": Harmony,
        "harmony-hints": lambda conditions: Harmony(conditions, hints=True),
        "dedicated": lambda _: OwnSlots("dedicated", submitted, preempts=False),
        "fifo": lambda _: OwnSlots("fifo", submitted, preempts=False, passes_over=False),
        "srtf": lambda _: OwnSlots("srtf", remaining_seconds, preempts=True),
        "srsf": lambda _: OwnSlots("srsf", remaining_service, preempts=True),
        "naive": lambda _: Crowded("naive", NAIVE_JOBS_PER_SLOT, fighting),
        "partitions": lambda _: Crowded("partitions", PARTITIONS, partitioned),
    }
)
NAMES: Final = tuple(_ARRANGERS)


def policy(name: str, conditions: Conditions) -> ClusterPolicy:
    """Return a policy for one run. Raises KeyError where there is none of the name."""
    return ClusterPolicy(_ARRANGERS[name](conditions), conditions)
