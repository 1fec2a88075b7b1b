"""Arithmetic on intervals of time: the one tool behind utilisation, overlaps and windows.

An interval is a half-open pair (start, end) of nanoseconds; those that only touch do not
overlap. Results are sorted and disjoint.
"""

from collections.abc import Iterable, Sequence

Interval = tuple[int, int]


def covered(intervals: Iterable[Interval], at_least: int = 1) -> list[Interval]:
    """Return the times that lie inside `at_least` of the intervals; empty ones count nothing."""
    edges: list[tuple[int, int]] = []
    for start, end in intervals:
        if start < end:
            edges += [(start, 1), (end, -1)]
    edges.sort()
    result: list[Interval] = []
    depth, opened_at = 0, 0
    for time, step in edges:
        before, depth = depth, depth + step
        if before < at_least <= depth:
            opened_at = time
        elif depth < at_least <= before:
            if result and result[-1][1] == opened_at:
                opened_at = result.pop()[0]
            result.append((opened_at, time))
    return result


def intersection(first: Sequence[Interval], second: Sequence[Interval]) -> list[Interval]:
    """Return the times that lie in both of two sorted, disjoint lists."""
    return covered([*first, *second], at_least=2)


def total(intervals: Iterable[Interval]) -> int:
    """Return the summed length of disjoint intervals."""
    return sum(end - start for start, end in intervals)


def share(busy: Iterable[Interval], window: Sequence[Interval]) -> float:
    """Return which part (0 to 1) of the disjoint `window` any busy interval covers."""
    length = total(window)
    return total(intersection(covered(busy), window)) / length if length else 0.0
