"""When a sidecar lets its worker go on without a permit, since nobody is there to grant one."""

from typing import Final

NO_PLAN_NANOSECONDS: Final = 10_000_000_000
"""Without a plan this long after the start, workers go on uncoordinated."""
NO_ARBITER_NANOSECONDS: Final = 2_000_000_000
"""Without an arbiter this long, workers go on uncoordinated."""


def nobody_answers(now_ns: int, *, started_ns: int, lost_ns: int | None, has_plan: bool) -> bool:
    """Say whether a request has waited long enough for a plan or an arbiter.

    `lost_ns` is since when there is no arbiter that answers; None: there is one.
    """
    if not has_plan:
        return now_ns - started_ns > NO_PLAN_NANOSECONDS
    return lost_ns is not None and now_ns - lost_ns > NO_ARBITER_NANOSECONDS
