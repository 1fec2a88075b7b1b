import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import iterations, job, phases

from harmony_planner.arrangement import arrange
from harmony_planner.performance import Link, correction, cycle_bound, predict
from harmony_planner.rounds import MOST_ROUNDS, candidates, settle
from harmony_planner.schedule import Iteration

links = st.builds(Link, st.sampled_from(["HalfDuplex", "FullDuplex"]), st.booleans())
HALF = Link("HalfDuplex")
FULL = Link("FullDuplex", servers_share_core=True)


@pytest.mark.parametrize(
    ("members", "link", "bound"),
    [
        ([phases(100, 40, 40, 10)] * 3, HALF, (0.3, "Compute")),
        ([phases(50, 40, 40, 20)] * 3, HALF, (0.3, "Network")),
        ([phases(50, 40, 60, 20)] * 4, FULL, (0.24, "Network")),
        ([phases(50, 40, 40, 60)] * 4, FULL, (0.24, "Servers")),
        ([phases(50, 40, 40, 60)] * 4, Link("FullDuplex"), (0.2, "Compute")),
        ([phases(50, 40, 40), phases(10, 5, 5)], HALF, (0.13, "Job")),
        ([phases(50, 40, 40), phases(10, 35, 35, rounds=2)], HALF, (0.22, "Network")),
    ],
)
def test_the_bound_is_the_largest_load_or_the_longest_member(
    members: list[Iteration], link: Link, bound: tuple[float, str]
) -> None:
    seconds, what = cycle_bound(members, link)
    assert (pytest.approx(seconds), what) == bound


def test_a_balanced_pair_doubles_the_speed_of_running_in_turn() -> None:
    prediction = predict({"a": phases(100, 50, 50), "b": phases(100, 50, 50)}, HALF)
    assert prediction.cycle_seconds == pytest.approx(0.2)
    assert prediction.serial_seconds == pytest.approx(0.4)
    assert prediction.speedup == pytest.approx(2)
    assert prediction.compute_utilisation == pytest.approx(1)
    assert prediction.network_utilisation == pytest.approx(1)
    assert prediction.slowdown_percent == pytest.approx({"a": 0, "b": 0}, abs=1e-6)


def test_a_measured_cycle_corrects_the_prediction_within_bounds() -> None:
    pair = {"a": phases(100, 50, 50), "b": phases(100, 50, 50)}
    corrected = predict(pair, HALF, correction_factor=correction(0.22, 0.2))
    assert corrected.cycle_seconds == pytest.approx(0.22)
    assert corrected.slowdown_percent["a"] == pytest.approx(10)
    assert correction(9.0, 0.2) == 1.5
    assert correction(0.01, 0.2) == 0.8


def test_a_job_that_is_left_alone_is_not_as_slow_as_its_group_was() -> None:
    alone = predict({"a": phases(100, 50, 50)}, HALF, correction_factor=1.1)
    assert alone.iteration_seconds == {"a": pytest.approx(0.2)}
    assert alone.slowdown_percent == {"a": pytest.approx(0)}


@settings(max_examples=60, deadline=None)
@given(st.lists(iterations, min_size=1, max_size=4), links, st.floats(0.8, 1.5))
def test_no_prediction_beats_the_bound(members: list[Iteration], link: Link, factor: float) -> None:
    named = {f"j{index}": member for index, member in enumerate(members)}
    prediction = predict(named, link, correction_factor=factor)
    assert prediction.cycle_seconds >= cycle_bound(members, link)[0]
    assert prediction.cycle_seconds >= prediction.bound_seconds
    for name, member in named.items():
        assert prediction.cycle_seconds >= member.rounds * prediction.iteration_seconds[name]
        assert prediction.slowdown_percent[name] >= 0
    assert 0 <= prediction.compute_utilisation <= 1
    assert 0 <= prediction.network_utilisation <= 1
    assert prediction.speedup <= len(members) + 1e-9


@given(st.lists(st.floats(0.001, 10), min_size=1, max_size=4))
def test_rounds_are_tried_all_alike_first_and_the_longest_always_runs_once(
    seconds: list[float],
) -> None:
    first, *others = candidates(seconds)
    assert set(first) == {1}
    for rounds in others:
        assert rounds[seconds.index(max(seconds))] == 1
        assert all(1 <= each <= MOST_ROUNDS for each in rounds)


def test_rounds_settle_to_what_the_schedule_does_but_keep_who_overtakes() -> None:
    assert settle({"a": 1, "b": 2}, {"a": 0.3, "b": 0.1}) == {"a": 1, "b": 3}
    assert settle({"a": 1, "b": 2}, {"a": 0.2, "b": 0.2}) == {"a": 1, "b": 2}
    assert settle({"a": 1, "b": 1}, {"a": 0.3, "b": 0.1}) == {"a": 1, "b": 1}


def test_an_unequal_pair_gets_rounds_where_they_pay() -> None:
    arrangement = arrange([job("a", 20, 60, 60), job("b", 40, 20, 20)], FULL)
    assert arrangement.rounds == {"a": 1, "b": 2}
    assert arrangement.prediction.cycle_seconds == pytest.approx(0.16, rel=0.01)


def test_equal_members_run_once_each() -> None:
    arrangement = arrange([job("a", 100, 50, 50), job("b", 90, 50, 50)], HALF)
    assert arrangement.rounds == {"a": 1, "b": 1}


def test_an_arrangement_that_keeps_the_limits_goes_before_a_faster_one() -> None:
    fast = arrange([job("a", 80, 60, 60), job("b", 30, 25, 25)], HALF)
    assert fast.prediction.slowdown_percent["a"] > 40
    kept = arrange(
        [
            job("a", 80, 60, 60, max_slowdown_percent=20),
            job("b", 30, 25, 25, max_slowdown_percent=200),
        ],
        HALF,
    )
    assert kept.prediction.slowdown_percent["a"] <= 20
    assert kept.prediction.speedup < fast.prediction.speedup


def test_the_order_of_members_does_not_change_the_answer() -> None:
    jobs = [job("a", 80, 60, 60), job("b", 30, 25, 25), job("c", 50, 20, 20)]
    assert arrange(jobs, FULL) == arrange(jobs[::-1], FULL)
