"""What of a job's status must be written before anything rests on it; the rest may wait a moment.

Restarts, ends, suspensions and measurements are remembered nowhere but in the status. Where the
job is placed and how many of its pods run is seen anew by every pass: of three changes within a
second one write tells as much as three, and a kill in between loses nothing.
"""

from collections.abc import Hashable, Mapping
from typing import Final

from harmony_api.conditions import ConditionType
from harmony_api.job_status import HarmonyJobStatus

_AT_FIRST: Final[Mapping[ConditionType, str]] = {
    ConditionType.VALID: "True",
    ConditionType.SUSPENDED: "False",
    ConditionType.SUCCEEDED: "Unknown",
    ConditionType.FAILED: "Unknown",
}
"""Of each condition that lasts: the status that every pass over a new job finds again."""


def lasting(status: HarmonyJobStatus) -> Hashable:
    """Return the part that must not be lost; alike for a new job and one that merely goes on."""
    return (
        frozenset(
            (one.type, one.status, one.reason)
            for one in status.conditions
            if one.type in _AT_FIRST and one.status != _AT_FIRST[ConditionType(one.type)]
        ),
        status.profiles,
        status.separated_from,
        status.preempted_by,
        status.succeeded_workers,
        status.restarts,
        status.last_counted_pod_uid,
        status.last_restart_time,
        status.uncounted_tries,
        status.last_uncounted_time,
        status.completion_time,
    )
