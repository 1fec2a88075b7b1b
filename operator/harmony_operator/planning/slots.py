"""The slots of a cluster: those that groups hold, and those that are free.

A held slot keeps the name and the size that it got with its group. The free devices of a node
are cut into slots as large as the jobs ask for, the first in the queue first, since no device
has a slot of its own until a group holds it.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import count

from harmony_operator.observed import ClusterState, ObjectKey, ObservedPod
from harmony_operator.occupants import not_left_yet
from harmony_operator.planning.capacity import Pool
from harmony_planner.snapshot import Job, Slot


def held_slots(
    state: ClusterState,
    pools: Sequence[Pool],
    users: Mapping[str, tuple[ObservedPod, ...]],
    members: Mapping[str, frozenset[str]],
    refused: Collection[tuple[ObjectKey, str]],
) -> tuple[Slot, ...]:
    """Return the slots that a group's members or a worker that has not left yet hold.

    `users` are the workers on each slot, `members` the uids of the jobs to which the plan gives
    it. A slot on a node that is gone is lost, and so is one that its node `refused`, or whose node
    does not answer or is cordoned, when no worker is bound there.
    """
    of_pool = {(pool.node, pool.device_kind): pool for pool in reversed(pools)}
    found: dict[str, Slot] = {}
    for group in state.groups.values():
        for slot in group.spec.slots:
            there = users.get(slot.name, ())
            pool = of_pool.get((slot.node, slot.device_kind))
            node = state.nodes.get(slot.node)
            if slot.name in found or node is None or not (there or slot.name in members):
                continue
            shut = not node.ready or not node.schedulable or (group.key, slot.name) in refused
            if shut and not any(pod.node for pod in there):
                continue
            closed = pool.closed if pool is not None else f"{slot.name} is offered no more"
            found[slot.name] = Slot(
                name=slot.name,
                node=slot.node,
                device_kind=slot.device_kind,
                gpus=slot.gpus,
                memory_bytes=pool.memory_bytes if pool is not None else None,
                closed=closed
                or not_left_yet(slot.name, there, members.get(slot.name, frozenset())),
            )
    return tuple(found[name] for name in sorted(found))


def free_slots(
    pools: Sequence[Pool],
    held: Sequence[Slot],
    planned: Collection[str],
    users: Mapping[str, tuple[ObservedPod, ...]],
    queue: Iterable[Job],
) -> Iterator[Slot]:
    """Yield the slots that are left: CPU slots, then devices cut to the size the queue asks for.

    Those that are `planned` and not held are lost, and not offered before they are given up.
    """
    names = {slot.name for slot in held}.union(planned)
    for pool in pools:
        for index in range(pool.count if pool.is_cpu else 0):
            name = f"{pool.node}/cpu-{index}"
            if name not in names:
                closed = pool.closed or not_left_yet(name, users.get(name, ()), frozenset())
                yield Slot(name=name, node=pool.node, closed=closed)
    names |= users.keys()
    used = Counter[tuple[str, str]]()
    for slot in held:
        used[slot.node, slot.device_kind] += slot.gpus
    rest: dict[tuple[bool, int], list[Pool]] = defaultdict(list)
    for pool in reversed(pools):
        left = pool.count - pool.used_by_others - used[pool.node, pool.device_kind]
        if not pool.is_cpu and left > 0:
            rest[pool.closed is not None, left].append(pool)
    for job in queue:
        gpus = job.gpus_per_worker
        for _ in range(job.workers if gpus else 0):
            fitting = sorted(key for key, those in rest.items() if those and key[1] >= gpus)
            last = (
                (key, at) for key in fitting if (at := _last_usable(rest[key], job)) is not None
            )
            found = next(last, None)
            if found is None:
                break
            (shut, left), at = found
            pool = rest[shut, left].pop(at)
            rest[shut, left - gpus].append(pool)
            name = _unused(f"{pool.node}/gpu-", names)
            names.add(name)
            yield Slot(
                name=name,
                node=pool.node,
                device_kind=pool.device_kind,
                gpus=gpus,
                memory_bytes=pool.memory_bytes,
                closed=pool.closed,
            )


def room(pools: Sequence[Pool], sizes: Iterable[int]) -> tuple[tuple[Slot, int], ...]:
    """Return a slot of each node, kind and size, and how many there are of it if all are free."""
    found: Counter[Slot] = Counter()
    for gpus in sorted(set(sizes)):
        for pool in pools:
            if pool.is_cpu == (gpus == 0):
                name = f"a slot of {pool.device_kind}"
                slot = Slot(name=name, node=pool.node, gpus=gpus, memory_bytes=pool.memory_bytes)
                found[slot] += pool.count // max(1, gpus)
    return tuple(found.items())


def _last_usable(pools: Sequence[Pool], job: Job) -> int | None:
    """Return the position of the last pool on whose node the job may begin."""
    for at in reversed(range(len(pools))):
        if pools[at].node not in job.barred and pools[at].node not in job.unschedulable:
            return at
    return None


def _unused(prefix: str, names: set[str]) -> str:
    return next(name for index in count() if (name := f"{prefix}{index}") not in names)
