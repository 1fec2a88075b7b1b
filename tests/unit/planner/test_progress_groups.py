"""Groups that make progress worth the most, and what a second of progress is worth."""

from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmony_planner.completion_rates import completion_rates
from harmony_planner.densest_groups import LARGEST_GROUP, Candidate, Group
from harmony_planner.progress_groups import choose_groups, first_that_fit
from harmony_planner.progress_values import progress_values

PERIODS = ((1.0, 0.0), (0.0, 1.0), (0.5, 0.5), (0.8, 0.3))


def cycle_seconds(group: Group) -> float:
    """Two resources that are used in turn, with a tenth lost to each further member."""
    if len(group) == 1:
        return group[0].alone_seconds
    uses = [PERIODS[member.profile] for member in group]
    return max(sum(use) for use in zip(*uses, strict=True)) * (1 + 0.1 * len(group))


def candidate(name: str, profile: int, *, gpus: int = 1, value: float = 1.0) -> Candidate:
    return Candidate(name, gpus, profile, sum(PERIODS[profile]), value)


def worth(groups: Sequence[Group]) -> float:
    return sum(
        sum(member.value * member.alone_seconds for member in group) / cycle_seconds(group)
        for group in groups
    )


def names(groups: Sequence[Group]) -> list[set[str]]:
    return sorted(({member.name for member in group} for group in groups), key=sorted)


@st.composite
def instances(draw: st.DrawFn) -> tuple[list[Candidate], int]:
    jobs = [
        candidate(
            f"job-{number}",
            draw(st.integers(0, len(PERIODS) - 1)),
            gpus=draw(st.sampled_from((1, 2, 4))),
            value=draw(st.floats(0.1, 10)),
        )
        for number in range(draw(st.integers(1, 14)))
    ]
    return jobs, draw(st.integers(1, 12))


@given(instances())
@settings(max_examples=150, deadline=None)
def test_groups_fit_are_disjoint_and_of_one_width(instance: tuple[list[Candidate], int]) -> None:
    jobs, free = instance
    groups = choose_groups(jobs, free, cycle_seconds)
    members = [member.name for group in groups for member in group]

    assert sum(group[0].gpus for group in groups) <= free
    assert len(members) == len(set(members))
    assert all(1 <= len(group) <= LARGEST_GROUP for group in groups)
    assert all(len({member.gpus for member in group}) == 1 for group in groups)
    assert groups == choose_groups(jobs, free, cycle_seconds)


@given(instances())
@settings(max_examples=150, deadline=None)
def test_no_single_exchange_with_a_waiting_job_gains(
    instance: tuple[list[Candidate], int],
) -> None:
    jobs, free = instance
    groups = choose_groups(jobs, free, cycle_seconds)
    running = {member.name for group in groups for member in group}
    waiting = [job for job in jobs if job.name not in running]

    for group, job in ((group, job) for group in groups for job in waiting):
        if job.gpus == group[0].gpus:
            if len(group) < LARGEST_GROUP:
                assert worth([(*group, job)]) <= worth([group]) + 1e-6
            for place in range(len(group)):
                swapped = (*group[:place], job, *group[place + 1 :])
                assert worth([swapped]) <= worth([group]) + 1e-6


@given(st.lists(st.tuples(st.integers(0, 3), st.floats(0.1, 10)), min_size=2, max_size=6))
@settings(max_examples=100, deadline=None)
def test_on_few_gpus_the_choice_is_near_the_best_there_is(drawn: list[tuple[int, float]]) -> None:
    jobs = [candidate(str(n), profile, value=value) for n, (profile, value) in enumerate(drawn)]
    best = 0.0
    everything = [
        group for size in range(1, LARGEST_GROUP + 1) for group in combinations(jobs, size)
    ]
    for one, two in combinations(everything, 2):
        if not {member.name for member in one} & {member.name for member in two}:
            best = max(best, worth([one, two]))

    assert worth(choose_groups(jobs, 2, cycle_seconds)) >= 0.8 * best


def test_nothing_is_shared_while_all_fit() -> None:
    jobs = [candidate(str(number), number % 2) for number in range(4)]

    assert names(choose_groups(jobs, 4, cycle_seconds)) == [{"0"}, {"1"}, {"2"}, {"3"}]


def test_complements_share_when_room_is_short() -> None:
    jobs = [candidate(str(number), number // 2) for number in range(4)]

    assert {frozenset(group) for group in names(choose_groups(jobs, 2, cycle_seconds))} <= {
        frozenset(pair) for pair in ({"0", "2"}, {"0", "3"}, {"1", "2"}, {"1", "3"})
    }


def test_a_job_that_is_worth_much_runs_alone() -> None:
    jobs = [candidate("dear", 2, value=100.0), candidate("a", 2), candidate("b", 2)]

    assert {"dear"} in names(choose_groups(jobs, 2, cycle_seconds))


def test_a_job_wider_than_the_room_is_left_out() -> None:
    jobs = [candidate("wide", 0, gpus=4), candidate("a", 0)]

    assert names(choose_groups(jobs, 2, cycle_seconds)) == [{"a"}]


def test_jobs_in_line_run_where_they_fit() -> None:
    line = [candidate("a", 0, gpus=2), candidate("b", 0, gpus=4), candidate("c", 0)]

    assert names(first_that_fit(line, 4)) == [{"a"}, {"c"}]


def test_progress_of_a_job_near_its_end_is_worth_more() -> None:
    near, far = progress_values([8, 8], [1 / 10, 1 / 1000])

    assert near > far
    assert progress_values([], []) == []


def test_wide_jobs_are_worth_more_but_less_than_their_width() -> None:
    narrow, wide = progress_values([1, 8], [1 / 100, 1 / 100])

    assert 1 < wide / narrow < 8


def test_jobs_that_outlived_the_short_ones_promise_no_early_finish() -> None:
    finished = [100.0] * 50 + [100_000.0] * 50
    young, old = completion_rates([0.0, 1000.0], finished)

    assert young > 30 * old


def test_no_job_is_held_to_be_further_from_its_end_than_it_has_come() -> None:
    (rate,) = completion_rates([5000.0], [1e9])

    assert rate == pytest.approx(1 / (2 * 5000 + 10_000))


def test_unfinished_jobs_count_as_not_yet_ended() -> None:
    finished = [100.0, 100.0]
    hopeful, *_ = completion_rates([0.0], finished)
    doubtful, *_ = completion_rates([0.0, *[5000.0] * 20], finished)

    assert hopeful > 5 * doubtful


def test_without_any_finish_whoever_ran_less_promises_more() -> None:
    young, old = completion_rates([0.0, 1e6], [])

    assert young > old > 0


@given(
    st.lists(st.floats(0, 1e7), min_size=1, max_size=20),
    st.lists(st.floats(1e-3, 1e7), max_size=20),
)
def test_rates_are_positive_and_finite(attained: list[float], finished: list[float]) -> None:
    assert all(0 < rate <= 1 / 60 for rate in completion_rates(attained, finished))
