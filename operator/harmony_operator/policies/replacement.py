"""Which pods a job lacks and which are in the way: lost and failed ones are made anew.

A pod is replaced when it is gone, never before, except on a node that does not answer. The
order is that of need: volume claims, the Service, the servers, the workers. Workers are made
together, when all of them have devices and none is leaving its place, since one alone would
only wait; and when nobody is left in their places whom the plan has sent away, for the devices'
memory is promised once.
"""

from collections.abc import Iterator
from typing import Final

from harmony_api import labels
from harmony_api.job import HarmonyJobSpec
from harmony_operator.actions import Annotate, Create, Step
from harmony_operator.builders.names import free_pod_name
from harmony_operator.builders.node_plan import plan_for
from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.builders.service import build_service
from harmony_operator.builders.volume_claim import build_volume_claim, own_volume_claims
from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedGroup, ObservedPod, Role
from harmony_operator.policies.failure import (
    backoff_end_seconds,
    replaceable_seconds,
    uncounted,
    verdict,
)
from harmony_operator.policies.pod_outcome import is_leaving, is_live
from harmony_operator.policies.standing import Standing
from harmony_operator.policies.stopping import delete, is_in_place
from harmony_operator.settings import OperatorSettings

OCCUPIED_LOOK_SECONDS: Final = 30.0


def removals(standing: Standing) -> tuple[Step, ...]:
    """Return what deletes pods that ended without success, each when its time has come."""
    waiting = _uncounted(standing)
    now = standing.view.now_seconds
    return tuple(
        delete(pod)
        for pod in _ended(standing)
        if pod not in waiting and (waiting or now >= _removable_seconds(pod, standing))
    )


def next_removal_seconds(standing: Standing) -> float | None:
    """Return when the next pod that ended is to be deleted."""
    waiting = _uncounted(standing)
    times = (_removable_seconds(pod, standing) for pod in _ended(standing) if pod not in waiting)
    return min(times, default=None)


def next_creation_seconds(standing: Standing) -> float | None:
    """Return when to look again at slots that others have not left: no event says they hang."""
    view = standing.view
    return view.now_seconds + OCCUPIED_LOOK_SECONDS if view.occupied else None


def removals_of_all(standing: Standing) -> tuple[Step, ...]:
    """Return what deletes every pod of a job that starts over, the servers first."""
    waiting = _uncounted(standing)
    return tuple(
        delete(pod) for pod in standing.roster.pods if not is_leaving(pod) and pod not in waiting
    )


def creations(standing: Standing, settings: OperatorSettings) -> tuple[Step, ...]:
    """Return what makes the pods that a job which may run lacks."""
    view, spec = standing.view, standing.spec
    if spec is None or view.group is None or _must_wait(standing):
        return ()
    return (
        *_volume_claims(standing),
        *(() if view.service_exists else (Create(build_service(view.job)),)),
        *_servers(standing, spec, settings),
        *(() if standing.stopping else _workers(standing, spec, view.group, settings)),
    )


def plan_updates(standing: Standing) -> tuple[Step, ...]:
    """Return what tells workers that run in their place about a changed plan."""
    view = standing.view
    if view.group is None:
        return ()
    steps = []
    for pod in standing.workers:
        if not (is_live(pod) and is_in_place(pod, view)):
            continue
        binding = view.bindings[pod.index] if pod.index < len(view.bindings) else None
        if not isinstance(binding, SlotBinding):
            continue
        plan = plan_for(view.job, view.group, binding, view.profiles)
        if plan is not None and plan != pod.node_plan:
            change = {labels.NODE_PLAN: plan}
            steps.append(Annotate(kind="Pod", key=pod.key, annotations=change))
    return tuple(steps)


def _volume_claims(standing: Standing) -> Iterator[Step]:
    """A server whose claim is gone waits for one of that name; a foreign one is a conflict."""
    view = standing.view
    for server, name in enumerate(own_volume_claims(view.job)):
        if name not in view.volume_claims:
            yield Create(build_volume_claim(view.job, server))


def _servers(
    standing: Standing, spec: HarmonyJobSpec, settings: OperatorSettings
) -> Iterator[Step]:
    for index in range(spec.parameter_servers.replicas):
        if index not in standing.roster.servers:
            name = _name(standing, "server", index)
            yield Create(build_server_pod(standing.view.job, index, name, settings))


def _workers(
    standing: Standing, spec: HarmonyJobSpec, group: ObservedGroup, settings: OperatorSettings
) -> Iterator[Step]:
    view = standing.view
    if any(map(is_leaving, standing.workers)):
        return
    indices = [
        index
        for index in range(spec.workers.least)
        if index not in standing.succeeded and index not in standing.roster.workers
    ]
    bound = dict(enumerate(view.bindings))
    if not all(isinstance(bound.get(index), SlotBinding) for index in indices):
        return
    if any(index in view.occupied for index in indices):
        return
    for index in indices:
        binding = view.bindings[index]
        assert isinstance(binding, SlotBinding)
        name = _name(standing, "worker", index)
        plan = plan_for(view.job, group, binding, view.profiles)
        yield Create(
            build_worker_pod(view.job, index, name, group.key.name, binding, plan, settings)
        )


def _must_wait(standing: Standing) -> bool:
    """Whether nothing may be made yet: in a pause, or while what it would meet is leaving."""
    view = standing.view
    left = view.foreign_pod_names or view.left_behind
    if left or view.now_seconds < backoff_end_seconds(view.job.status):
        return True
    old_run = not any(is_live(pod) for pod in standing.servers)
    return old_run and any(is_leaving(pod) for pod in standing.roster.pods)


def _name(standing: Standing, role: Role, index: int) -> str:
    taken = {pod.key.name for pod in standing.view.pods}
    return free_pod_name(standing.view.job.key.name, role, index, taken)


def _ended(standing: Standing) -> Iterator[ObservedPod]:
    assert standing.spec is not None
    policy = standing.spec.failure_policy
    return (pod for pod in (*standing.servers, *standing.workers) if verdict(pod, policy))


def _uncounted(standing: Standing) -> tuple[ObservedPod, ...]:
    assert standing.spec is not None
    status, policy = standing.view.job.status, standing.spec.failure_policy
    return tuple(pod for pod, _ in uncounted(standing.failures_that_count, status, policy))


def _removable_seconds(pod: ObservedPod, standing: Standing) -> float:
    """Until then its log can be read; a job that may not run clears its place at once."""
    return replaceable_seconds(pod, standing.view.job.status) if standing.may_run else 0.0
