"""What follows from a failed worker or server: another try, or the job's failure.

The manifest's rules decide, first match first. A try is spent by each failure that no rule
ignores; progress since the last one earns no new tries, as in batch/v1 Job.
"""

from dataclasses import dataclass
from typing import Literal

from harmony_api.failure_policy import FailurePolicy, FailureRule

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0


@dataclass(frozen=True)
class Decision:
    """What to do about a process that failed."""

    consequence: Literal["Restart", "Fail"]
    counts: bool
    """Whether it spends one of the job's tries."""
    delay_seconds: float = 0.0


def after_failure(
    exit_code: int, *, container: str, failures: int, policy: FailurePolicy
) -> Decision:
    """Decide about a process that failed; `exit_code` is minus the signal that killed it.

    `failures` counts those before this one.
    """
    code = exit_code if exit_code >= 0 else 128 - exit_code
    action = next((rule.action for rule in policy.rules if _matches(rule, container, code)), None)
    if action == "Fail":
        return Decision("Fail", counts=True)
    if action == "Ignore":
        return Decision("Restart", counts=False, delay_seconds=FIRST_DELAY_SECONDS)
    if action != "Restart" and failures >= policy.backoff_limit:
        return Decision("Fail", counts=True)
    return Decision("Restart", counts=True, delay_seconds=backoff_seconds(failures))


def backoff_seconds(failures: int) -> float:
    """Seconds until the next try: doubled with each failure, bounded."""
    return min(FIRST_DELAY_SECONDS * 2.0 ** min(failures, 32), LONGEST_DELAY_SECONDS)


def _matches(rule: FailureRule, container: str, code: int) -> bool:
    codes = rule.on_exit_codes
    return codes is not None and codes.match(code, container=container)
