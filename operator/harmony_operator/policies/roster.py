"""Which pod stands for each worker and server, if there are several or leaving ones.

There is never more than one live pod for an index, except where one is on a node that does
not answer: it cannot be waited for, because it leaves only when its node returns.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from harmony_operator.observed import ObservedPod, Role
from harmony_operator.occupants import STUCK_SECONDS
from harmony_operator.policies.pod_outcome import is_leaving
from harmony_operator.view import JobView


@dataclass(frozen=True)
class Roster:
    """The pods of a job by index."""

    workers: Mapping[int, ObservedPod]
    servers: Mapping[int, ObservedPod]
    surplus: tuple[ObservedPod, ...]
    """Live pods beyond the first of their index."""

    @property
    def pods(self) -> tuple[ObservedPod, ...]:
        """Servers, then workers, by index."""
        return (*_by_index(self.servers), *_by_index(self.workers))


def roster_of(view: JobView) -> Roster:
    """Return who stands for whom; pods that are given up are in none of it."""
    present = [pod for pod in view.pods if not given_up(pod, view)]
    staying = [pod for pod in present if not is_leaving(pod)]
    first = _first_of_each(staying)
    chosen = {**_first_of_each(present), **first}
    return Roster(
        workers={index: pod for (role, index), pod in chosen.items() if role == "worker"},
        servers={index: pod for (role, index), pod in chosen.items() if role == "server"},
        surplus=tuple(pod for pod in staying if first[pod.role, pod.index] is not pod),
    )


def given_up(pod: ObservedPod, view: JobView) -> bool:
    """Whether a leaving pod is not waited for: its node is silent, or it is stuck."""
    if pod.deleting_since_seconds is None:
        return False
    stuck = view.now_seconds >= pod.deleting_since_seconds + STUCK_SECONDS
    return stuck or is_unreachable(pod, view.unreachable_nodes)


def is_unreachable(pod: ObservedPod, unreachable_nodes: Collection[str]) -> bool:
    """Whether the pod is on a node that does not answer."""
    return pod.node in unreachable_nodes


def _first_of_each(pods: Iterable[ObservedPod]) -> dict[tuple[Role, int], ObservedPod]:
    first: dict[tuple[Role, int], ObservedPod] = {}
    for pod in pods:
        first.setdefault((pod.role, pod.index), pod)
    return first


def _by_index(pods: Mapping[int, ObservedPod]) -> list[ObservedPod]:
    return [pods[index] for index in sorted(pods)]
