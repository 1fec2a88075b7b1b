"""Whether all of a job runs, and if not, what it waits for: the first thing to look at."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Final

from harmony_api.conditions import ConditionType, RunningReason
from harmony_operator.gpu_binding import BindingProblem
from harmony_operator.observed import ApiProblem, ObservedPod, Role
from harmony_operator.policies.conditions import Observation, condition, holds, time_of
from harmony_operator.policies.failure import backoff_end_seconds
from harmony_operator.policies.pod_outcome import (
    has_stopped,
    in_words,
    is_leaving,
    is_live,
    name_of,
)
from harmony_operator.policies.roster import is_unreachable
from harmony_operator.policies.standing import Standing

UNSCHEDULABLE_SECONDS: Final = 10.0
"""So long a pod may find no node before it is told: a claim that is being allocated is no news."""
SLOW_START_SECONDS: Final = 30.0
"""So long a pod may be on its node without starting before it is told: images are large."""
UNREADY_SECONDS: Final = 10.0
"""So long a worker or server may miss its readiness probe before the job is said not to run."""
_IMAGE_REASONS: Final = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "ErrImageNeverPull",
        "InvalidImageName",
        "ImageInspectError",
    }
)


def running(standing: Standing) -> Observation:
    """Return the condition Running of a job that is not finished."""
    if standing.stopping and (observation := _stopping(standing)):
        return observation
    missing = _missing(standing, "server") or _missing(standing, "worker")
    if missing is None:
        return _all_run(standing)
    reasons = chain(
        _refusals(standing.view.problem),
        _bindings(standing),
        _pod_troubles(standing),
        _pauses(standing),
        _still_refused(standing),
    )
    return next(reasons, missing)


def is_running(pod: ObservedPod) -> bool:
    """Whether the pod does its work."""
    return is_live(pod) and pod.ready


def _stopping(standing: Standing) -> Observation | None:
    """What is said of a job that may not run, or whose workers are in the wrong place."""
    if standing.may_run:
        message = "its workers stop at an iteration boundary before they start in the new place"
        return Observation("False", RunningReason.MOVING, message) if standing.workers else None
    if standing.busy_workers:
        message = "its workers stop at an iteration boundary"
        return Observation("False", RunningReason.STOPPING, message)
    if standing.fault is None and standing.spec is not None and standing.spec.suspend:
        return Observation("False", RunningReason.SUSPENDED, "see the condition Suspended")
    return Observation("False", RunningReason.NOT_ADMITTED, "see the condition Admitted")


def _refusals(problem: ApiProblem | None) -> Iterator[Observation]:
    if problem is None:
        return
    message = f"{problem.what}: {problem.message}"
    if problem.reason == "AlreadyExists":
        message = f"{problem.what}: the name is taken by an object of somebody else; remove it"
        yield Observation("False", RunningReason.NAME_CONFLICT, message)
    elif problem.status == 403 and "exceeded quota" in problem.message:
        yield _trouble(RunningReason.QUOTA_EXCEEDED, message)
    else:
        yield _trouble(RunningReason.POD_REFUSED, message)


def _bindings(standing: Standing) -> Iterator[Observation]:
    for index, binding in enumerate(standing.view.bindings):
        if isinstance(binding, BindingProblem) and index not in standing.succeeded:
            yield _trouble(binding.reason, f"worker {index}: {binding.message}")


def _pod_troubles(standing: Standing) -> Iterator[Observation]:
    view = standing.view
    left = (*sorted(view.foreign_pod_names), *view.left_behind)
    if left:
        message = f"waits until what an earlier job of this name left is gone: {', '.join(left)}"
        yield Observation("False", RunningReason.NAME_CONFLICT, message)
    for pod in (*standing.servers, *standing.workers):
        if not is_live(pod):
            continue
        words = f"{name_of(pod)}: {pod.waiting_reason}: {pod.waiting_message}"
        if pod.waiting_reason in _IMAGE_REASONS:
            yield _trouble(RunningReason.IMAGE_MISSING, _first_words(words, pod, standing))
        elif pod.waiting_reason:
            yield _trouble(RunningReason.POD_REFUSED, words)
        elif pod.unschedulable_message and _is_past(_told_seconds(pod), standing):
            words = f"{name_of(pod)}: {pod.unschedulable_message}"
            yield _trouble(RunningReason.UNSCHEDULABLE, words)
        elif is_unreachable(pod, view.unreachable_nodes):
            reason = _RESTARTING[pod.role]
            message = f"{name_of(pod)} is on {pod.node}, which does not answer"
            yield Observation("False", reason, message)
    for pod in (*standing.servers, *standing.workers):
        if pod.phase == "Failed" and pod.termination is None and not pod.disrupted:
            yield _trouble(RunningReason.POD_REFUSED, in_words(pod))


def _trouble(reason: str, words: str) -> Observation:
    """What somebody else says who tries again and again."""
    return Observation("False", reason, words, figures_matter=False)


def next_trouble_seconds(standing: Standing) -> float | None:
    """Return when the next pod that makes no progress has waited long enough to be told of."""
    pods = filter(is_live, (*standing.servers, *standing.workers))
    times = (time for pod in pods for time in (_told_seconds(pod), _late_seconds(pod)))
    later = (time for time in times if time is not None and time > standing.view.now_seconds)
    return min(later, default=None)


def _told_seconds(pod: ObservedPod) -> float | None:
    """When it is told that the pod finds no node, or is not ready any more."""
    if pod.unschedulable_message:
        return pod.created_seconds + UNSCHEDULABLE_SECONDS
    if pod.unready_since_seconds is not None and pod.started_seconds is not None:
        return pod.unready_since_seconds + UNREADY_SECONDS
    return None


def _late_seconds(pod: ObservedPod) -> float | None:
    """When it is told that the pod does not start on its node."""
    if pod.scheduled_seconds is None or pod.started_seconds is not None:
        return None
    return pod.scheduled_seconds + SLOW_START_SECONDS


def _pauses(standing: Standing) -> Iterator[Observation]:
    status, counted = standing.view.job.status, standing.counted
    if counted is not None:
        yield Observation("False", RunningReason.BACKING_OFF, counted.message)
        return
    end = backoff_end_seconds(status)
    if standing.view.now_seconds >= end:
        return
    before = condition(status.conditions, ConditionType.RUNNING)
    if before is not None and before.reason == RunningReason.BACKING_OFF:
        yield Observation("False", RunningReason.BACKING_OFF, before.message)
    else:
        message = f"restart {status.restarts} is due at {time_of(end):%H:%M:%S} UTC"
        yield Observation("False", RunningReason.BACKING_OFF, message)


def _still_refused(standing: Standing) -> Iterator[Observation]:
    """A refusal holds until the next try has brought a pod further, else each try is an event."""
    before = condition(standing.view.job.status.conditions, ConditionType.RUNNING)
    if before is None or before.reason != RunningReason.POD_REFUSED:
        return
    starting = (pod for pod in (*standing.servers, *standing.workers) if not pod.ready)
    if not any(is_live(pod) and pod.started_seconds is not None for pod in starting):
        yield Observation("False", RunningReason.POD_REFUSED, before.message)


def _missing(standing: Standing, role: Role) -> Observation | None:
    """What is said while not all servers, or not all workers, do their work."""
    assert standing.spec is not None
    if role == "server":
        total, pods = standing.spec.parameter_servers.replicas, standing.roster.servers
    else:
        total, pods = standing.spec.workers.least, standing.roster.workers
    indices = [
        index for index in range(total) if role == "server" or index not in standing.succeeded
    ]
    absent = [index for index in indices if not (index in pods and _serves(pods[index], standing))]
    if not absent:
        return None
    anew = standing.starting_over or _is_replaced(absent, pods, standing)
    reason = _RESTARTING[role] if anew else _STARTING[role]
    message = f"{len(indices) - len(absent)} of {_count(len(indices), role)} ready"
    late = [pods[index] for index in absent if index in pods and is_live(pods[index])]
    late = [pod for pod in late if _is_past(_late_seconds(pod), standing)]
    if late:
        message = (
            f"{message}; {name_of(late[0])} has been on {late[0].node} for more than "
            f"{SLOW_START_SECONDS:.0f} s and does not start: "
            f"see kubectl describe pod {late[0].key.name}"
        )
    if role == "worker" and (occupied := standing.view.occupied):
        message = f"{message}; {occupied[min(occupied)]}"
    if standing.starting_over:
        message = "all servers and workers are replaced, since a server's state was lost"
    return Observation("False", reason, message)


def _is_replaced(
    absent: Iterable[int], pods: Mapping[int, ObservedPod], standing: Standing
) -> bool:
    """Whether those that do not serve are replaced, or were; else they start, or are not ready."""
    before = condition(standing.view.job.status.conditions, ConditionType.RUNNING)
    found = [pods.get(index) for index in absent]
    if before is not None and before.reason in _REPLACING:
        return True
    if any(pod is not None and not is_live(pod) and not _stopped_as_told(pod) for pod in found):
        return True
    ran = before is not None and before.reason == RunningReason.WORKERS_RUNNING
    return ran and any(pod is None or pod.started_seconds is None for pod in found)


def _stopped_as_told(pod: ObservedPod) -> bool:
    return has_stopped(pod) and pod.stop_asked_seconds is not None


def _serves(pod: ObservedPod, standing: Standing) -> bool:
    """Whether the pod does its work; a server that ended well has done it.

    One that misses a readiness probe in a job that ran is believed to work for a moment.
    """
    if pod.role == "server" and pod.termination is not None and not pod.termination.exit_code:
        return not is_leaving(pod)
    ran = holds(standing.view.job.status.conditions, ConditionType.RUNNING)
    told = _told_seconds(pod)
    reached = is_live(pod) and not is_unreachable(pod, standing.view.unreachable_nodes)
    flaps = ran and reached and told is not None and not _is_past(told, standing)
    return is_running(pod) or flaps


def _is_past(time: float | None, standing: Standing) -> bool:
    return time is not None and standing.view.now_seconds >= time


def _all_run(standing: Standing) -> Observation:
    workers = _count(sum(map(is_running, standing.workers)), "worker")
    servers = _count(sum(map(is_running, standing.servers)), "server")
    return Observation("True", RunningReason.WORKERS_RUNNING, f"{workers} and {servers}")


def _first_words(words: str, pod: ObservedPod, standing: Standing) -> str:
    """The kubelet alternates between two messages about one image: the first stays."""
    before = condition(standing.view.job.status.conditions, ConditionType.RUNNING)
    if before is None or before.reason != RunningReason.IMAGE_MISSING:
        return words
    return before.message if before.message.startswith(f"{name_of(pod)}:") else words


def _count(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


_STARTING: Final = {
    "server": RunningReason.SERVERS_STARTING,
    "worker": RunningReason.WORKERS_STARTING,
}
_RESTARTING: Final = {
    "server": RunningReason.SERVERS_RESTARTING,
    "worker": RunningReason.WORKERS_RESTARTING,
}
_REPLACING: Final = frozenset(
    {
        RunningReason.WORKERS_RESTARTING,
        RunningReason.SERVERS_RESTARTING,
        RunningReason.BACKING_OFF,
    }
)
"""Reasons after which a missing pod is one that was there before."""
