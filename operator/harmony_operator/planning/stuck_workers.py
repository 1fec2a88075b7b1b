"""Nodes that do not take a job's worker although the plan sent it there.

Only kube-scheduler and the node's kubelet know all that a pod needs, so what they refuse is
believed: for a while the planner looks for another place for the job, longer after each refusal
of the same node. As long as the worker waits there, so does the refusal hold: a job that cannot
use its slot gives it to one that can. A kubelet's first refusal is forgiven, since one that has
just started refuses what it takes a moment later. An image that a node cannot get, or a container
that it cannot make, keeps a slot for nothing just the same.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from harmony_operator.observed import ClusterState, ObjectKey, ObservedPod

PATIENCE_SECONDS: Final = 60.0
"""So long a pod may be unschedulable: what it waits for may just be leaving."""
START_SECONDS: Final = 300.0
"""So long a container may be unable to start: a registry comes back, a volume is detached."""
AVOIDED_SECONDS: Final = 300.0
"""So long a node is avoided after its first refusal, twice as long after the second..."""
LONGEST_AVOIDED_SECONDS: Final = 3600.0
"""...and so on up to this. After twice as long without a refusal they are forgotten."""


@dataclass(frozen=True, kw_only=True)
class Stuck:
    """What is remembered of a node that did not take a job's worker."""

    job_uid: str
    pod_uid: str
    """Of the worker that was refused last."""
    times: int
    """How many workers of the job it did not take; 0 while only one was, by its kubelet."""
    seen_seconds: float
    """When the last one was seen waiting or refused."""
    why: str

    def is_avoided(self, now_seconds: float) -> bool:
        """Whether the planner looks for another place."""
        lasts = min(AVOIDED_SECONDS * 2.0 ** min(self.times - 1, 10), LONGEST_AVOIDED_SECONDS)
        return self.times > 0 and now_seconds < self.seen_seconds + lasts


StuckWorkers = Mapping[tuple[ObjectKey, str], Stuck]
"""By job and node."""


def stuck_workers(state: ClusterState, before: StuckWorkers) -> StuckWorkers:
    """Return what is known after another look."""
    now = state.now_seconds
    waiting = _refused(state)
    settled = _let_in(state) - waiting.keys() if before else set()
    found = {
        (key, node): stuck
        for (key, node), stuck in before.items()
        if now < stuck.seen_seconds + 2 * LONGEST_AVOIDED_SECONDS
        and (key, node) not in settled
        and (job := state.jobs.get(key)) is not None
        and job.uid == stuck.job_uid
    }
    for (key, node), pod in waiting.items():
        last = found.get((key, node))
        again = last is not None and last.pod_uid == pod.uid
        first = 0 if pod.finished else 1
        found[key, node] = Stuck(
            job_uid=pod.job_uid,
            pod_uid=pod.uid,
            times=first if last is None else last.times + (not again),
            seen_seconds=now,
            # Its words change with every node of the cluster.
            why=last.why if last is not None and again else _in_words(pod),
        )
    return found


def avoided_nodes(stuck: StuckWorkers, now_seconds: float) -> Mapping[ObjectKey, dict[str, str]]:
    """Return the nodes that each job shall avoid, with the reason of each."""
    found: dict[ObjectKey, dict[str, str]] = {}
    for (key, node), one in stuck.items():
        if one.is_avoided(now_seconds):
            found.setdefault(key, {})[node] = one.why
    return found


def _refused(state: ClusterState) -> dict[tuple[ObjectKey, str], ObservedPod]:
    """Return by job and node a worker that the node of its slot does not take."""
    waiting = [
        pod
        for pod in state.pods.values()
        if pod.role == "worker"
        and pod.deleting_since_seconds is None
        and (_is_refused_by_kubelet(pod) or _waits_too_long(pod, state.now_seconds))
    ]
    if not waiting:
        return {}
    nodes = {
        (group.key.name, slot.name): slot.node
        for group in state.groups.values()
        for slot in group.spec.slots
    }
    return {
        (ObjectKey(pod.key.namespace, pod.job), node): pod
        for pod in sorted(waiting, key=lambda pod: pod.key)
        if (node := nodes.get((pod.group, pod.slot))) is not None
    }


def _waits_too_long(pod: ObservedPod, now_seconds: float) -> bool:
    waits_seconds = now_seconds - pod.created_seconds
    if not pod.node:
        return bool(pod.unschedulable_message) and waits_seconds >= PATIENCE_SECONDS
    cannot_start = pod.phase == "Pending" and pod.waiting_reason
    return bool(cannot_start) and waits_seconds >= START_SECONDS


def _is_refused_by_kubelet(pod: ObservedPod) -> bool:
    """Whether it never ran: OutOfcpu, UnexpectedAdmissionError, and the like."""
    return pod.phase == "Failed" and pod.termination is None and not pod.disrupted


def _let_in(state: ClusterState) -> set[tuple[ObjectKey, str]]:
    """Return by job and node where workers run after all."""
    return {
        (ObjectKey(pod.key.namespace, pod.job), pod.node)
        for pod in state.pods.values()
        if pod.role == "worker" and pod.phase == "Running" and pod.deleting_since_seconds is None
    }


def _in_words(pod: ObservedPod) -> str:
    if pod.finished:
        why = ": ".join(filter(None, (pod.reason, pod.message)))
        return f"its kubelet refused {pod.key.name}: {why}"
    if pod.node:
        return f"{pod.key.name} cannot start there: {pod.waiting_reason}: {pod.waiting_message}"
    return f"kube-scheduler found no room there for {pod.key.name}: {pod.unschedulable_message}"
