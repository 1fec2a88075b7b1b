"""Ends of pods that count for nothing, so that they do not repeat for ever at the same pace.

A program that always leaves by itself with the code for stopping, a failure that a rule ignores
and a node that refuses each pod are tried again without a limit. So the pause between two tries
grows while they end that soon; one long life begins anew. What ends before the replacements are
made is one try, however many pods it is.
"""

from typing import Any

from harmony_operator.policies.conditions import time_of
from harmony_operator.policies.failure import LONGEST_BACKOFF_SECONDS, end_seconds, verdict
from harmony_operator.policies.standing import Standing


def uncounted_tries(standing: Standing) -> dict[str, Any]:
    """Return what changes in the status when pods ended by themselves and count for nothing."""
    spec, status = standing.spec, standing.view.job.status
    if spec is None:
        return {}
    before = status.last_uncounted_time
    known_until = 0.0 if before is None else before.timestamp()
    lives = [
        end_seconds(pod) - pod.created_seconds
        for pod in (*standing.servers, *standing.workers)
        if verdict(pod, spec.failure_policy) == "Ignore"
        and not pod.disrupted
        and pod.stop_asked_seconds is None
        and pod.created_seconds >= known_until
    ]
    if not lives:
        return {}
    again = min(lives) < LONGEST_BACKOFF_SECONDS
    return {
        "uncounted_tries": status.uncounted_tries + 1 if again else 1,
        # The next second: what began in this one was seen.
        "last_uncounted_time": time_of(standing.view.now_seconds + 1),
    }
