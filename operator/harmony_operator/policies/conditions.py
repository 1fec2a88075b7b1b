"""Conditions as a list that keeps the time of each one's last change."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from harmony_api.conditions import Condition, ConditionStatus, ConditionType
from harmony_operator.sentences import without_figures


@dataclass(frozen=True)
class Observation:
    """What a condition shall say; when it changed follows from what it said before."""

    status: ConditionStatus
    reason: str
    message: str = ""
    figures_matter: bool = True
    """False: while only its figures change, the message stays as it is."""


def time_of(seconds: float) -> datetime:
    """Return a time as status fields hold it: in whole seconds of UTC."""
    return datetime.fromtimestamp(int(seconds), UTC)


def condition(conditions: Iterable[Condition], kind: ConditionType) -> Condition | None:
    """Return the condition of this type."""
    return next((one for one in conditions if one.type == kind), None)


def holds(conditions: Iterable[Condition], kind: ConditionType) -> bool:
    """Whether the condition is True."""
    found = condition(conditions, kind)
    return found is not None and found.status == "True"


def updated(
    before: Iterable[Condition],
    observations: Mapping[ConditionType, Observation],
    *,
    generation: int,
    now_seconds: float,
) -> tuple[Condition, ...]:
    """Return the conditions in the order of the observations; only a new status is a transition.

    Conditions of types that are not observed here are somebody else's, and stay.
    """
    before = tuple(before)
    ours = tuple(
        _after(condition(before, kind), kind, seen, generation, now_seconds)
        for kind, seen in observations.items()
    )
    return ours + tuple(one for one in before if one.type not in observations)


def _after(
    before: Condition | None,
    kind: ConditionType,
    seen: Observation,
    generation: int,
    now_seconds: float,
) -> Condition:
    same = before is not None and before.status == seen.status
    return Condition(
        type=kind,
        status=seen.status,
        observed_generation=generation,
        last_transition_time=(
            before.last_transition_time if before and same else time_of(now_seconds)
        ),
        reason=seen.reason,
        message=_message(before, seen),
    )


def _message(before: Condition | None, seen: Observation) -> str:
    now = seen.message[:_LONGEST_MESSAGE]
    if seen.figures_matter or before is None or before.reason != seen.reason:
        return now
    return before.message if without_figures(before.message) == without_figures(now) else now


_LONGEST_MESSAGE = 2000
"""Characters; a scheduler's message about a large cluster is longer than anybody reads."""
