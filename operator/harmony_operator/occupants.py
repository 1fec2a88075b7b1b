"""Which workers still use which slots, whatever the plan says by now.

A slot is free when its last worker has left it, not when the plan has given it to nobody: a
worker that stops at an iteration boundary holds its device memory until then.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from harmony_operator.observed import ClusterState, ObservedPod

STUCK_SECONDS: Final = 300.0
"""A pod that is still there so long after its grace period has ended is not waited for."""


def occupants(state: ClusterState) -> Mapping[str, tuple[ObservedPod, ...]]:
    """Return the workers on each slot by its name, those that are leaving included."""
    found: dict[str, list[ObservedPod]] = defaultdict(list)
    for pod in state.pods.values():
        if pod.role == "worker" and pod.slot and not pod.finished and not _is_lost(pod, state):
            found[pod.slot].append(pod)
    return {slot: tuple(pods) for slot, pods in found.items()}


def not_left_yet(slot: str, pods: Iterable[ObservedPod], members: Collection[str]) -> str | None:
    """Say whose worker is still on the slot although the job (by uid) is no member any more."""
    leaving = {f"{pod.key.namespace}/{pod.job}" for pod in pods if pod.job_uid not in members}
    return f"a worker of {min(leaving)} has not left {slot} yet" if leaving else None


def _is_lost(pod: ObservedPod, state: ClusterState) -> bool:
    """Whether nobody waits for the pod to go: nothing is there that could tell."""
    if pod.node and pod.node not in state.nodes:
        return True
    if pod.deleting_since_seconds is None:
        return False
    node = state.nodes.get(pod.node)
    stuck = state.now_seconds >= pod.deleting_since_seconds + STUCK_SECONDS
    return stuck or (node is not None and not node.ready)
