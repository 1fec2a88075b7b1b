"""Plans are made anew when something changed that a plan rests on, and not more often."""

from harmony_api.profile import JobProfile
from harmony_planner.triggers import LastPlan, reason_to_plan, usable

MEASURED = JobProfile(
    iterations=20, compute_microseconds=1000, pull_microseconds=500, push_microseconds=500
)


def reason(
    last: LastPlan,
    *,
    active: set[str],
    running: set[str] | None = None,
    profiles: dict[str, JobProfile] | None = None,
    now: float = 100.0,
) -> str | None:
    return reason_to_plan(
        last,
        frozenset(active),
        [frozenset(active if running is None else running)],
        profiles or {},
        now,
    )


def slower(profile: JobProfile, factor: float) -> JobProfile:
    return profile.model_copy(
        update={
            name: int(getattr(profile, name) * factor)
            for name in ("compute_microseconds", "pull_microseconds", "push_microseconds")
        }
    )


def test_a_job_that_joins_is_a_reason() -> None:
    assert reason(LastPlan(), active={"a"}) == "a joined"


def test_a_job_that_ends_is_a_reason() -> None:
    assert reason(LastPlan(jobs=frozenset("ab")), active={"a"}) == "b ended"


def test_nothing_new_is_no_reason() -> None:
    last = LastPlan(jobs=frozenset("a"), profiles={"a": MEASURED}, planned_at=0)
    assert reason(last, active={"a"}, profiles={"a": MEASURED}) is None


def test_a_first_profile_counts_once_every_running_job_has_one() -> None:
    last = LastPlan(jobs=frozenset("ab"), planned_at=0)
    assert reason(last, active={"a", "b"}, profiles={"a": MEASURED}) is None
    both = {"a": MEASURED, "b": MEASURED}
    assert reason(last, active={"a", "b"}, profiles=both) == "a and b measured"


def test_a_waiting_job_holds_nobody_up() -> None:
    last = LastPlan(jobs=frozenset("ab"), planned_at=0)
    found = reason(last, active={"a", "b"}, running={"a"}, profiles={"a": MEASURED})
    assert found == "a measured"


def test_a_profile_that_moves_by_more_than_a_tenth_is_a_reason() -> None:
    last = LastPlan(jobs=frozenset("a"), profiles={"a": MEASURED}, planned_at=0)
    assert reason(last, active={"a"}, profiles={"a": slower(MEASURED, 1.08)}) is None
    found = reason(last, active={"a"}, profiles={"a": slower(MEASURED, 1.2)})
    assert found == "an iteration of a takes +20 % of the time planned with"


def test_drift_is_left_alone_shortly_after_a_plan() -> None:
    last = LastPlan(jobs=frozenset("a"), profiles={"a": MEASURED}, planned_at=99)
    assert reason(last, active={"a"}, profiles={"a": slower(MEASURED, 3)}) is None


def test_a_profile_of_a_few_iterations_is_not_planned_with() -> None:
    assert usable(MEASURED) is MEASURED
    assert usable(MEASURED.model_copy(update={"iterations": 2})) is None
    assert usable(None) is None
