"""What a group really does corrects what is predicted of it, and splits what does not pay."""

import pytest

from harmony_planner.group_speed import Count, GroupSpeeds
from harmony_planner.snapshot import Group, Member, Plan, Prediction, Waiting


def pair(*, cycle: float = 0.1, serial: float = 0.18, rounds: int = 1) -> Plan:
    prediction = Prediction(
        cycle_seconds=cycle,
        bound_seconds=cycle,
        bound="Compute",
        serial_seconds=serial,
        compute_utilisation=1.0,
        network_utilisation=1.0,
        iteration_seconds={},
        slowdown_percent={},
    )
    members = tuple(
        Member(job=job, order=order, rounds=count, slots=("s",), memory_bytes=None, reason="")
        for order, (job, count) in enumerate((("a", 1), ("b", rounds)))
    )
    return Plan(groups=(Group(name="g", slots=("s",), members=members, prediction=prediction),))


def counts(a: int, b: int, at: float, *, restarts: int = 0) -> dict[str, Count]:
    return {"a": Count(a, restarts, at), "b": Count(b, 0, at)}


def speeds(plan: Plan) -> GroupSpeeds:
    found = GroupSpeeds()
    found.begin(plan, counts(0, 0, 0.0))
    return found


def test_a_group_slower_than_predicted_is_corrected() -> None:
    measured = speeds(pair())
    assert measured.learn(counts(100, 100, 12.0)) == frozenset()
    assert measured.corrections["g"] == pytest.approx(1.2)


def test_rounds_count_cycles() -> None:
    assert speeds(pair(rounds=3)).measured_cycles(counts(50, 150, 6.0)) == {
        "g": pytest.approx(0.12)
    }


def test_nothing_is_learnt_from_a_short_time_or_few_cycles() -> None:
    assert not speeds(pair()).measured_cycles(counts(30, 30, 4.0))
    assert not speeds(pair()).measured_cycles(counts(30, 10, 10.0))


def test_a_restart_spoils_the_measurement() -> None:
    assert not speeds(pair()).measured_cycles(counts(100, 100, 12.0, restarts=1))


def test_a_pair_twice_slower_than_in_turn_is_told_apart() -> None:
    measured = speeds(pair())
    assert measured.learn(counts(100, 100, 20.0)) == frozenset()
    assert measured.learn(counts(200, 200, 40.0)) == {frozenset("ab")}


def test_one_slow_stretch_on_a_busy_machine_separates_nobody() -> None:
    measured = speeds(pair())
    measured.learn(counts(100, 100, 20.0))
    assert measured.learn(counts(200, 200, 31.0)) == frozenset()
    assert measured.learn(counts(300, 300, 55.0)) == frozenset(), "counted from the last good one"


def test_a_correction_stays_with_its_members_and_is_never_applied_twice() -> None:
    measured = speeds(pair())
    measured.learn(counts(100, 100, 12.0))
    measured.begin(pair(cycle=0.12), counts(100, 100, 12.0))
    measured.learn(counts(200, 200, 24.0))
    assert measured.corrections["g"] == pytest.approx(1.2)


def test_a_new_plan_between_two_slow_stretches_makes_none_of_them_forgotten() -> None:
    measured = speeds(pair())
    assert measured.learn(counts(100, 100, 20.0)) == frozenset()
    measured.begin(pair(cycle=0.15), counts(100, 100, 20.0))
    assert measured.learn(counts(200, 200, 40.0)) == {frozenset("ab")}


def test_a_pair_that_was_apart_for_a_while_is_still_suspected() -> None:
    measured = speeds(pair())
    measured.learn(counts(100, 100, 20.0))
    measured.begin(Plan(waiting=(Waiting(job="a", reason=""), Waiting(job="b", reason=""))), {})
    measured.begin(pair(), counts(100, 100, 30.0))
    assert measured.learn(counts(200, 200, 50.0)) == {frozenset("ab")}


def test_a_good_stretch_after_a_new_plan_clears_the_pair() -> None:
    measured = speeds(pair())
    measured.learn(counts(100, 100, 20.0))
    measured.begin(pair(), counts(100, 100, 20.0))
    assert measured.learn(counts(200, 200, 31.0)) == frozenset()
    measured.begin(pair(), counts(200, 200, 31.0))
    assert measured.learn(counts(300, 300, 51.0)) == frozenset()


def test_a_job_of_the_same_name_is_not_suspected_after_the_first_has_gone() -> None:
    measured = speeds(pair())
    measured.learn(counts(100, 100, 20.0))
    measured.begin(Plan(waiting=(Waiting(job="a", reason=""),)), {})
    measured.begin(pair(), counts(100, 0, 30.0))
    assert measured.learn(counts(200, 100, 50.0)) == frozenset()
