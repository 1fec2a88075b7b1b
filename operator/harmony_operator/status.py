"""The whole status of a job, made anew in each pass from where the job stands.

What is only remembered (restarts, workers that are done, profiles, partners) is carried over
from the status before; everything else is what is seen. Nothing is announced that is not so:
a pass that finds the job over writes that first, and cleans up only afterwards.
"""

from datetime import datetime

from harmony_api.conditions import (
    AdmittedReason,
    Condition,
    ConditionType,
    FailedReason,
    RunningReason,
    SucceededReason,
    SuspendedReason,
    ValidReason,
)
from harmony_api.job_status import (
    AssignedGroup,
    HarmonyJobStatus,
    JobState,
    Replicas,
    ServerReplicas,
    SharingCost,
    WorkerReplicas,
)
from harmony_operator.policies.admission import admission
from harmony_operator.policies.columns import columns_of
from harmony_operator.policies.conditions import (
    Observation,
    condition,
    holds,
    time_of,
    updated,
)
from harmony_operator.policies.ending import Ending
from harmony_operator.policies.measured_profile import profiles_of
from harmony_operator.policies.pod_outcome import outcome
from harmony_operator.policies.progress import progress_of
from harmony_operator.policies.running import is_running, running
from harmony_operator.policies.standing import Standing
from harmony_operator.policies.suspend import keeps_servers, preempted_by, suspension
from harmony_operator.policies.uncounted import uncounted_tries

_MOST_PARTNERS = 256


def status_of(standing: Standing) -> HarmonyJobStatus:
    """Return the status that the job should have."""
    before = standing.view.job.status
    conditions = _conditions(standing)
    status = before.model_copy(
        update={
            "observed_generation": standing.view.job.generation,
            "conditions": conditions,
            "state": _state(conditions),
            "group": _group(standing),
            "replicas": _replicas(standing),
            "start_time": _start_time(standing, conditions),
            "succeeded_workers": tuple(sorted(standing.succeeded)),
            **_counted(standing),
        }
    )
    spec = standing.spec
    if spec is not None and not standing.finished:
        status = status.model_copy(
            update={
                "progress": progress_of(standing, spec),
                "profiles": profiles_of(standing),
                "preempted_by": preempted_by(spec, standing.view),
                "separated_from": _separated_from(standing),
                **uncounted_tries(standing),
            }
        )
    if standing.ending is not None:
        now = time_of(standing.view.now_seconds)
        status = status.model_copy(update={"completion_time": now, "preempted_by": None})
    status = status.model_copy(update={"sharing": _sharing(standing, status)})
    return status.model_copy(update={"columns": columns_of(standing, status)})


def _conditions(standing: Standing) -> tuple[Condition, ...]:
    job = standing.view.job
    if standing.finished:
        return job.status.conditions
    return updated(
        job.status.conditions,
        _ended(standing.ending) if standing.ending else _going_on(standing),
        generation=job.generation,
        now_seconds=standing.view.now_seconds,
    )


def _going_on(standing: Standing) -> dict[ConditionType, Observation]:
    fault = standing.fault
    valid = Observation("True", ValidReason.ACCEPTED)
    if fault is not None:
        valid = Observation("False", fault.reason, fault.message)
    return {
        ConditionType.VALID: valid,
        ConditionType.ADMITTED: admission(standing),
        ConditionType.RUNNING: running(standing),
        ConditionType.SUSPENDED: suspension(standing),
        ConditionType.SUCCEEDED: Observation("Unknown", SucceededReason.IN_PROGRESS),
        ConditionType.FAILED: Observation("Unknown", FailedReason.IN_PROGRESS),
    }


def _ended(ending: Ending) -> dict[ConditionType, Observation]:
    good = Observation("True", ending.reason, ending.message)
    succeeded, failed = good, Observation("False", FailedReason.SUCCEEDED)
    if not ending.succeeded:
        succeeded, failed = Observation("False", SucceededReason.FAILED), good
    return {
        ConditionType.VALID: Observation("True", ValidReason.ACCEPTED),
        ConditionType.ADMITTED: Observation("False", AdmittedReason.FINISHED),
        ConditionType.RUNNING: Observation("False", RunningReason.FINISHED),
        ConditionType.SUSPENDED: Observation("False", SuspendedReason.FINISHED),
        ConditionType.SUCCEEDED: succeeded,
        ConditionType.FAILED: failed,
    }


def _state(conditions: tuple[Condition, ...]) -> JobState:
    """Return the conditions in one word."""
    if holds(conditions, ConditionType.SUCCEEDED):
        return "Succeeded"
    if holds(conditions, ConditionType.FAILED):
        return "Failed"
    if not holds(conditions, ConditionType.VALID):
        return "Invalid"
    suspended = condition(conditions, ConditionType.SUSPENDED)
    if suspended is not None and suspended.status == "True":
        return "Preempted" if suspended.reason == SuspendedReason.PREEMPTED else "Suspended"
    if holds(conditions, ConditionType.RUNNING):
        return "Running"
    run = condition(conditions, ConditionType.RUNNING)
    if run is not None and run.reason in (RunningReason.STOPPING, RunningReason.MOVING):
        return "Stopping"
    admitted = condition(conditions, ConditionType.ADMITTED)
    if admitted is not None and admitted.status == "True":
        return "Starting"
    return "Waiting" if admitted is not None and admitted.status == "False" else "Pending"


def _group(standing: Standing) -> AssignedGroup | None:
    group, member = standing.view.group, standing.view.member
    if group is None or member is None or not standing.may_run:
        return None
    slots = len(set(member.slot_indices))
    return AssignedGroup(name=group.key.name, namespace=group.key.namespace, slots=slots)


def _replicas(standing: Standing) -> Replicas:
    spec, over = standing.spec, standing.finished or standing.ending
    servers = workers = 0
    if spec is not None and not over:
        kept = standing.servers and keeps_servers(spec)
        servers = spec.parameter_servers.replicas if standing.may_run or kept else 0
        workers = spec.workers.least if standing.may_run else 0
    return Replicas(
        servers=ServerReplicas(desired=servers, ready=sum(map(is_running, standing.servers))),
        workers=WorkerReplicas(
            desired=workers,
            ready=sum(map(is_running, standing.workers)),
            succeeded=len(standing.succeeded),
            failed=sum(outcome(pod) == "Failed" for pod in standing.workers),
        ),
    )


def _start_time(standing: Standing, conditions: tuple[Condition, ...]) -> datetime | None:
    """When it was admitted; the clock stands while the job is suspended or preempted."""
    before = standing.view.job.status.start_time
    if standing.finished or standing.ending:
        return before
    if holds(conditions, ConditionType.SUSPENDED):
        return None
    if before is None and standing.may_run:
        return time_of(standing.view.now_seconds)
    return before


def _counted(standing: Standing) -> dict[str, object]:
    """What changes when a failure is counted."""
    before, counted, ending = standing.view.job.status, standing.counted, standing.ending
    if counted is None or ending is not None:
        return {}
    return {
        "restarts": before.restarts + 1,
        "last_counted_pod_uid": counted.pod.uid,
        "last_restart_time": time_of(standing.view.now_seconds),
    }


def _separated_from(standing: Standing) -> tuple[str, ...]:
    known, now = standing.view.job.status.separated_from, standing.view.separated_from
    if now is None:
        return known
    kept = [uid for uid in known if uid in now]
    return (*kept, *sorted(now.difference(kept)))[:_MOST_PARTNERS]


def _sharing(standing: Standing, status: HarmonyJobStatus) -> SharingCost | None:
    """Return what sharing costs the job, by the group's measured cycle."""
    group, member = standing.view.group, standing.view.member
    if group is None or member is None or status.group is None:
        return None
    kind = group.spec.slots[member.slot_indices[0]].device_kind
    alone = next((one for one in status.profiles if one.device_kind == kind), None)
    cycle = group.status.measured_cycle_microseconds
    if alone is None or cycle is None or not alone.iteration_seconds:
        return None
    shared_seconds = cycle / 1e6 / member.rounds
    percent = round(100 * (shared_seconds / alone.iteration_seconds - 1))
    return SharingCost(slowdown_percent=max(0, percent))
