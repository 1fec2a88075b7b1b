"""What follows from a worker or server that failed: another try, or the job's failure.

The rules of the spec decide, first match first. A pod that was lost rather than failed is
replaced and not counted. A failure is counted in the status before its pod is deleted, and
the next one only when that pod is on its way out, so that none is counted twice or forgotten,
whenever the operator is killed.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

from harmony_api.conditions import FailedReason
from harmony_api.failure_policy import FailurePolicy, FailureRule
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.observed import ObservedPod
from harmony_operator.policies.ending import Ending
from harmony_operator.policies.pod_outcome import in_words, outcome

FIRST_BACKOFF_SECONDS: Final = 2.0
LONGEST_BACKOFF_SECONDS: Final = 300.0
UNCOUNTED_RETRY_SECONDS: Final = 30.0
"""A pod whose end is not counted is replaced so long after its creation, or later, and twice as
long after each further one, up to LONGEST_BACKOFF_SECONDS: a program or a node that ends each pod
at once must not keep the cluster busy."""

Verdict = Literal["Fail", "Count", "CountAlways", "Ignore"]
"""CountAlways: it is counted, but restarted beyond the limit as well."""


@dataclass(frozen=True)
class Counted:
    """A failure that is counted now."""

    pod: ObservedPod
    message: str


def verdict(pod: ObservedPod, policy: FailurePolicy) -> Verdict | None:
    """Judge the pod's end; None where it did not fail."""
    how = outcome(pod)
    if how is None or how == "Succeeded":
        return None
    if how == "Stopped":
        return "Ignore"
    action = next((rule.action for rule in policy.rules if _matches(rule, pod)), None)
    match action:
        case "Fail":
            return "Fail"
        case "Ignore":
            return "Ignore"
        case "Restart":
            return "CountAlways"
        case None:
            return "Ignore" if how == "Lost" else "Count"


def is_counted(pod: ObservedPod, status: HarmonyJobStatus) -> bool:
    """Whether the status counts this pod already."""
    return pod.uid == status.last_counted_pod_uid


def next_failure(
    pods: Iterable[ObservedPod], status: HarmonyJobStatus, policy: FailurePolicy
) -> Counted | Ending | None:
    """Return the failure to count now, or the job's own failure that follows from it."""
    pods = tuple(pods)
    if any(is_counted(pod, status) and verdict(pod, policy) for pod in pods):
        return None
    waiting = uncounted(pods, status, policy)
    if not waiting:
        return None
    pod, judgement = waiting[0]
    limit = policy.backoff_limit
    if judgement == "Fail":
        return Ending(
            FailedReason.FAILURE_POLICY_RULE,
            f"{in_words(pod)}, and a rule of failurePolicy says Fail",
        )
    if judgement == "Count" and status.restarts >= limit:
        return Ending(
            FailedReason.BACKOFF_LIMIT_EXCEEDED,
            f"{in_words(pod)} after {_times(status.restarts)}; "
            f"failurePolicy.backoffLimit is {limit}. See the log of {pod.key.name}",
        )
    return Counted(pod, f"{in_words(pod)}; restart {status.restarts + 1} (backoffLimit {limit})")


def uncounted(
    pods: Iterable[ObservedPod], status: HarmonyJobStatus, policy: FailurePolicy
) -> list[tuple[ObservedPod, Verdict]]:
    """Return the failures that the status must still count, in their order of time."""
    judged = [
        (pod, judgement)
        for pod in pods
        if not is_counted(pod, status)
        and (judgement := verdict(pod, policy)) not in (None, "Ignore")
    ]
    return sorted(judged, key=lambda one: (end_seconds(one[0]), one[0].uid))


def backoff_end_seconds(status: HarmonyJobStatus) -> float:
    """Return when the pause after the last counted failure is over: doubled each time."""
    if status.last_restart_time is None or not status.restarts:
        return 0.0
    pause = FIRST_BACKOFF_SECONDS * 2.0 ** min(status.restarts - 1, 32)
    return status.last_restart_time.timestamp() + min(pause, LONGEST_BACKOFF_SECONDS)


def replaceable_seconds(pod: ObservedPod, status: HarmonyJobStatus) -> float:
    """Return when a pod that failed, and needs no counting any more, may be replaced."""
    if is_counted(pod, status):
        return backoff_end_seconds(status)
    if pod.disrupted or pod.stop_asked_seconds is not None:
        return 0.0
    pause = UNCOUNTED_RETRY_SECONDS * 2.0 ** min(max(status.uncounted_tries - 1, 0), 10)
    return pod.created_seconds + min(pause, LONGEST_BACKOFF_SECONDS)


def end_seconds(pod: ObservedPod) -> float:
    """Return when the pod ended; of one that never ran, when it was created."""
    return pod.termination.finished_seconds if pod.termination else pod.created_seconds


def _matches(rule: FailureRule, pod: ObservedPod) -> bool:
    codes = rule.on_exit_codes
    if codes is None:
        return any(pod.conditions.get(one.type) == one.status for one in rule.on_pod_conditions)
    end = pod.termination
    return end is not None and codes.match(end.exit_code, container=pod.role)


def _times(restarts: int) -> str:
    return "1 restart" if restarts == 1 else f"{restarts} restarts"
