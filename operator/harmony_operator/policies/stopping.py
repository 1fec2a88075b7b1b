"""How workers are brought to a stop: at an iteration boundary, and in the end by force.

All workers of a job stop together, at one iteration that the servers name. So when one has to,
because it is in the wrong place or the job may not run, all are told; and none is started
anew before the last one has left its old place. From a place that is still good they leave only
when the devices of the new one are bound: until then it may not work. A worker that is told sees
it within a minute or two, when the kubelet refreshes the file with its plan. Programs that do not
talk to the sidecar would never stop: they are deleted, with their grace period. So are pods that
cannot be told, and with them their peers: they wait for what a lost worker pushes, and so come to
no boundary. What that costs is the iteration in which they wait.
"""

from collections.abc import Collection, Iterable
from datetime import UTC, datetime
from typing import Final

from harmony_api import labels
from harmony_operator.actions import Annotate, Delete, Step
from harmony_operator.builders.node_plan import stopping
from harmony_operator.gpu_binding import BindingProblem, SlotBinding
from harmony_operator.observed import ObservedPod
from harmony_operator.policies.pod_outcome import has_stopped, is_leaving, is_live
from harmony_operator.policies.roster import is_unreachable
from harmony_operator.view import JobView

STOP_WITHIN_SECONDS: Final = 180.0
"""Until a worker that was told to stop is deleted: for the plan to reach it, and some more,"""
STOP_WITHIN_ITERATIONS: Final = 10
"""and so many of its iterations alone, for those that take long or share."""
LISTENS_WITHIN_SECONDS: Final = 15.0
"""A program that has no connection to its sidecar so long after it was told has none at all."""


def must_stop(workers: Iterable[ObservedPod], view: JobView) -> bool:
    """Whether all workers must stop: one was told to, or runs where the plan does not want it."""
    staying = [pod for pod in workers if not is_leaving(pod)]
    if any(pod.stop_asked_seconds is not None for pod in staying):
        return True
    misplaced = [pod for pod in staying if _runs_out_of_place(pod, view)]
    return bool(misplaced) and not _may_stay(misplaced, view)


def stop_steps(
    workers: Collection[ObservedPod], unfinished: int, view: JobView
) -> tuple[Step, ...]:
    """Return what brings every live worker nearer to its stop.

    `unfinished` is the number of workers that the job should have, those that are done left out.
    """
    if _come_to_no_boundary(workers, unfinished, view):
        return tuple(delete(pod) for pod in workers if is_live(pod))
    steps: list[Step] = []
    for pod in filter(is_live, workers):
        if view.now_seconds >= _patience_end(pod, view):
            steps.append(delete(pod))
        elif pod.stop_asked_seconds is None:
            steps.append(_ask(pod, view.now_seconds))
    return tuple(steps)


def _come_to_no_boundary(workers: Collection[ObservedPod], unfinished: int, view: JobView) -> bool:
    """Whether one of the workers is lost or cannot be told, so that the others wait for it.

    Once somebody was told, one that is gone may have stopped as it should.
    """
    told = any(pod.stop_asked_seconds is not None for pod in workers)
    lost = (
        _cannot_hear(pod, view) if is_live(pod) else not (told and has_stopped(pod))
        for pod in workers
    )
    return any(lost) or (not told and len(workers) < unfinished)


def removals_from_wrong_places(workers: Iterable[ObservedPod], view: JobView) -> tuple[Step, ...]:
    """Return what deletes workers that are in the wrong place, but do not train there."""
    return tuple(
        delete(pod)
        for pod in workers
        if is_live(pod) and not is_in_place(pod, view) and _cannot_hear(pod, view)
    )


def next_look_seconds(workers: Iterable[ObservedPod], view: JobView) -> float | None:
    """Return when to look again at the workers that were told to stop."""
    times = (
        time
        for pod in workers
        if is_live(pod) and pod.stop_asked_seconds is not None
        for time in (pod.stop_asked_seconds + LISTENS_WITHIN_SECONDS, _patience_end(pod, view))
        if time > view.now_seconds
    )
    return min(times, default=None)


def delete(pod: ObservedPod) -> Delete:
    """Return the step that deletes the pod."""
    return Delete(kind="Pod", key=pod.key, uid=pod.uid)


def is_in_place(pod: ObservedPod, view: JobView) -> bool:
    """Whether the pod was made for the slot that the plan gives its worker now, as it is bound."""
    group, member = view.group, view.member
    if group is None or member is None or pod.index >= len(member.slot_indices):
        return False
    slot = group.spec.slots[member.slot_indices[pod.index]]
    made_for_it = (pod.group, pod.slot) == (group.key.name, slot.name)
    return made_for_it and _are_its_devices(pod.devices, view.bindings[pod.index])


def _are_its_devices(
    devices: tuple[str, ...], binding: SlotBinding | BindingProblem | None
) -> bool:
    """Whether they are still what binds them: a lost reservation may come back with others.

    Where a claim binds, no environment names devices.
    """
    if not isinstance(binding, SlotBinding):
        return True
    if binding.visible_devices is None:
        return not devices
    return bool(devices) and tuple(binding.visible_devices.split(",")[: len(devices)]) == devices


def _may_stay(misplaced: Iterable[ObservedPod], view: JobView) -> bool:
    """Whether the workers go on in their old place until the new one is bound.

    Not where the new one is waiting for what the old one, or another job's worker, holds.
    """
    group, member = view.group, view.member
    if group is None or member is None or view.occupied:
        return False
    if all(isinstance(binding, SlotBinding) for binding in view.bindings):
        return False
    new_slots = {group.spec.slots[index].name for index in member.slot_indices}
    return all(
        pod.slot not in new_slots
        and (old := view.old_bindings.get(pod.key.name)) is not None
        and _are_its_devices(pod.devices, old)
        for pod in misplaced
    )


def _runs_out_of_place(pod: ObservedPod, view: JobView) -> bool:
    return is_live(pod) and not is_in_place(pod, view) and not _cannot_hear(pod, view)


def _cannot_hear(pod: ObservedPod, view: JobView) -> bool:
    """Whether telling it is in vain: it does not run yet, cannot be reached, or does not listen."""
    if is_unreachable(pod, view.unreachable_nodes):
        return True
    if pod.started_seconds is None or not pod.node_plan:
        return True
    live, asked = view.live.get(pod.index), pod.stop_asked_seconds
    if live is None or asked is None or live.pod_uid != pod.uid or live.connected:
        return False
    return live.asked_seconds > asked and view.now_seconds >= asked + LISTENS_WITHIN_SECONDS


def _patience_end(pod: ObservedPod, view: JobView) -> float:
    if pod.stop_asked_seconds is None:
        return float("inf")
    measured, job = view.job.status.profiles, view.job.job
    hint = job.spec.profile if job is not None and not measured else None
    known = (*measured, *((hint.to_profile(),) if hint is not None else ()))
    iteration_seconds = max((profile.iteration_seconds for profile in known), default=0.0)
    return pod.stop_asked_seconds + STOP_WITHIN_SECONDS + STOP_WITHIN_ITERATIONS * iteration_seconds


def _ask(pod: ObservedPod, now_seconds: float) -> Annotate:
    now = datetime.fromtimestamp(int(now_seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Annotate(
        kind="Pod",
        key=pod.key,
        annotations={labels.NODE_PLAN: stopping(pod.node_plan), labels.STOP_TIME: now},
    )
