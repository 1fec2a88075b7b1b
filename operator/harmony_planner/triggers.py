"""When to plan again.

The planner is asked when a job joined or ended, when jobs that run together have all been
measured for the first time, and when a profile has moved by more than 10 %; not more often, so that
plans do not flap.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final

from harmony_api.profile import JobProfile
from harmony_planner import wording
from harmony_planner.snapshot import Plan

ITERATIONS_FOR_A_PROFILE: Final = 8
DRIFT: Final = 0.10
SECONDS_BETWEEN_DRIFT_PLANS: Final = 5.0
NAMES_SAID: Final = 4


@dataclass(frozen=True)
class LastPlan:
    """A plan, and what it rested on."""

    jobs: frozenset[str] = frozenset()
    profiles: Mapping[str, JobProfile] = field(default_factory=dict)
    """Measured ones."""
    planned_at: float = float("-inf")
    """In seconds, of the clock that `reason_to_plan` is asked with."""
    decision: Plan = field(default_factory=Plan)


def usable(profile: JobProfile | None) -> JobProfile | None:
    """A profile that rests on enough iterations, otherwise None."""
    if profile is None or profile.iterations < ITERATIONS_FOR_A_PROFILE:
        return None
    return profile


def reason_to_plan(
    last: LastPlan,
    active: frozenset[str],
    together: Collection[frozenset[str]],
    profiles: Mapping[str, JobProfile],
    now: float,
) -> str | None:
    """Say why to plan now, or None.

    `active` jobs have not ended; those of a set of `together` run, and are measured, together;
    `profiles` are usable ones.
    """
    if joined := active - last.jobs:
        return f"{_some(joined)} joined"
    if ended := last.jobs - active:
        return f"{_some(ended)} ended"
    measured = [running for running in together if running <= profiles.keys()]
    if new := frozenset().union(*measured) - last.profiles.keys():
        return f"{_some(new)} measured"
    if now - last.planned_at < SECONDS_BETWEEN_DRIFT_PLANS:
        return None
    running = frozenset().union(*together)
    for name in sorted(running & profiles.keys() & last.profiles.keys()):
        before, after = last.profiles[name], profiles[name]
        change = after.iteration_seconds / max(before.iteration_seconds, 1e-9) - 1
        if abs(change) > DRIFT:
            return f"an iteration of {name} takes {100 * change:+.0f} % of the time planned with"
    return None


def _some(names: Collection[str]) -> str:
    """Return some of the names, and how many more there are."""
    first = sorted(names)[:NAMES_SAID]
    more = len(names) - len(first)
    return wording.names([*first, f"{more} more"] if more else first)
