"""One pass over one job: what is seen becomes what to do, by pure functions.

Every pass starts from the cluster alone, and either decides or acts. A pass that finds the job
over, or a failure to count, only says so in the status; acting is for the passes that see that
status. So a job that is finished once is finished for good, and no failure is counted twice,
whatever is killed in between.
"""

from harmony_operator.actions import Actions, Delete, Step
from harmony_operator.events import events_between
from harmony_operator.policies.deadline import deadline_seconds
from harmony_operator.policies.failure import backoff_end_seconds
from harmony_operator.policies.pod_outcome import is_leaving, is_live
from harmony_operator.policies.rehearsal import rehearsal
from harmony_operator.policies.replacement import (
    creations,
    next_creation_seconds,
    next_removal_seconds,
    plan_updates,
    removals,
    removals_of_all,
)
from harmony_operator.policies.running import next_trouble_seconds
from harmony_operator.policies.standing import Standing, standing_of
from harmony_operator.policies.stopping import (
    delete,
    next_look_seconds,
    removals_from_wrong_places,
    stop_steps,
)
from harmony_operator.policies.suspend import keeps_servers
from harmony_operator.policies.time_to_live import expiry_seconds
from harmony_operator.settings import OperatorSettings
from harmony_operator.status import status_of
from harmony_operator.view import JobView


def reconcile(view: JobView, settings: OperatorSettings) -> Actions:
    """Return all that this pass wants done."""
    if view.job.deleting:
        return Actions()
    standing = standing_of(view)
    status = status_of(standing)
    return Actions(
        steps=_steps(standing, settings),
        status=status,
        events=events_between(view.job.written, status, standing.counted),
        again_after_seconds=_again_after_seconds(standing),
    )


def _steps(standing: Standing, settings: OperatorSettings) -> tuple[Step, ...]:
    if standing.ending is not None or standing.counted is not None:
        return ()
    if standing.finished:
        return _clean_up(standing)
    view = standing.view
    surplus: tuple[Step, ...] = tuple(delete(pod) for pod in standing.roster.surplus)
    surplus += tuple(rehearsal(standing, settings))
    if standing.spec is None:
        return surplus + stop_steps(standing.workers, standing.unfinished, view)
    if standing.starting_over:
        return surplus + removals_of_all(standing)
    steps = surplus + removals(standing)
    if standing.stopping:
        steps += stop_steps(standing.workers, standing.unfinished, view)
    else:
        steps += removals_from_wrong_places(standing.workers, view) + plan_updates(standing)
    if standing.may_run:
        return steps + creations(standing, settings)
    if not standing.busy_workers and not keeps_servers(standing.spec):
        steps += tuple(delete(pod) for pod in standing.servers if not is_leaving(pod))
    return steps


def _clean_up(standing: Standing) -> tuple[Step, ...]:
    """Return what removes a finished job's servers, its live workers, and in time the job.

    Pods that have ended stay for their logs, until the job goes.
    """
    view, spec = standing.view, standing.spec
    expiry = None if spec is None else expiry_seconds(spec, view.job.status)
    if expiry is not None and view.now_seconds >= expiry:
        return (Delete(kind="HarmonyJob", key=view.job.key, uid=view.job.uid),)
    servers = [pod for pod in standing.servers if not is_leaving(pod)]
    if view.job.status.state != "Succeeded":
        servers = list(filter(is_live, servers))
    elif spec is not None and not spec.completion.clean_servers:
        servers = []
    workers = filter(is_live, standing.workers)
    return tuple(delete(pod) for pod in (*standing.roster.surplus, *workers, *servers))


def _again_after_seconds(standing: Standing) -> float | None:
    """Return when something is due without anything happening before."""
    view, spec = standing.view, standing.spec
    status = view.job.status
    times: list[float | None]
    if standing.ending is not None:
        times = []
    elif standing.finished:
        times = [] if spec is None else [expiry_seconds(spec, status)]
    else:
        times = [next_look_seconds(standing.workers, view), backoff_end_seconds(status)]
        if spec is not None and standing.fault is None:
            times += [deadline_seconds(spec, status), next_removal_seconds(standing)]
            times += [next_creation_seconds(standing), next_trouble_seconds(standing)]
    due = [time for time in times if time is not None and time > view.now_seconds]
    return min(due) - view.now_seconds if due else None
