"""When a job has succeeded: all its workers have, or the chief, worker 0, has.

Workers that succeeded are remembered in the status, so that their pods may go.
"""

from harmony_api.conditions import SucceededReason
from harmony_api.job import HarmonyJobSpec
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.policies.ending import Ending
from harmony_operator.policies.pod_outcome import outcome
from harmony_operator.policies.roster import Roster


def succeeded_workers(roster: Roster, status: HarmonyJobStatus) -> frozenset[int]:
    """Return the indices of the workers that are done."""
    seen = {index for index, pod in roster.workers.items() if outcome(pod) == "Succeeded"}
    return frozenset(seen | set(status.succeeded_workers))


def success(spec: HarmonyJobSpec, succeeded: frozenset[int]) -> Ending | None:
    """Return the job's success, if it has succeeded."""
    if spec.completion.success == "ChiefWorker":
        if 0 in succeeded:
            return Ending(SucceededReason.CHIEF_SUCCEEDED, "worker 0, the chief, succeeded")
        return None
    workers = spec.workers.least
    if not succeeded.issuperset(range(workers)):
        return None
    who = "the worker" if workers == 1 else f"all {workers} workers"
    return Ending(SucceededReason.WORKERS_SUCCEEDED, f"{who} succeeded")
