from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from harmony_cli.report.intervals import covered, intersection, share, total

TIMES = st.integers(0, 60)
INTERVALS = st.lists(st.tuples(TIMES, TIMES), max_size=12)


def depth(intervals: list[tuple[int, int]], time: int) -> int:
    return sum(start <= time < end for start, end in intervals)


@given(INTERVALS, st.integers(1, 4))
def test_covered_times_are_those_inside_enough_intervals(
    intervals: list[tuple[int, int]], at_least: int
) -> None:
    result = covered(intervals, at_least)
    for time in range(61):
        assert (depth(intervals, time) >= at_least) == (depth(result, time) == 1)


@given(INTERVALS)
def test_results_are_sorted_disjoint_and_merged(intervals: list[tuple[int, int]]) -> None:
    result = covered(intervals)
    assert all(start < end for start, end in result)
    assert all(before < after for (_, before), (after, _) in pairwise(result))


@given(INTERVALS, INTERVALS)
def test_a_share_lies_between_none_and_all(
    busy: list[tuple[int, int]], window: list[tuple[int, int]]
) -> None:
    window = covered(window)
    assert 0 <= share(busy, window) <= 1
    assert total(intersection(covered(busy), window)) <= min(total(covered(busy)), total(window))


def test_intervals_that_only_touch_do_not_overlap() -> None:
    assert covered([(0, 5), (5, 9)], at_least=2) == []
    assert covered([(0, 5), (5, 9)]) == [(0, 9)]
