"""How soon a job may finish, told from those that finished: a Gittins index, learnt as jobs end.

Where durations are unknown, what a job has run already says something about what it has left:
jobs that outlived the short ones are seldom short themselves. The index of a job is the best
rate of finishing per second that any further stretch of work promises (Gittins, 1989); serving
the highest first is optimal on one server. Chances come from the finished jobs and from how far
the unfinished ones got (Kaplan and Meier, 1958), so nothing of the future enters.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

_RESOLUTION_SECONDS: Final = 60.0
"""Finishes are known no more exactly: a lucky near one promises no boundless rate."""
_USUAL_SECONDS: Final = 10_000.0
"""Expected of a job about whose like nothing is known."""


def completion_rates(
    attained_seconds: Sequence[float], finished_seconds: Sequence[float]
) -> list[float]:
    """Return the index of each unfinished job, in finishes per second of work.

    `attained_seconds` is the work that each unfinished job has done, `finished_seconds` what
    each finished one took in all, both as seconds of a job alone. No job is held to be further
    from its end than twice what it ran and the usual time, however few have finished.
    """
    attained = np.asarray(attained_seconds, dtype=float)
    finished = np.sort(np.asarray(finished_seconds, dtype=float))
    survivors = np.sort(attained)
    unfinished = len(survivors) - np.searchsorted(survivors, finished, side="left")
    at_risk = len(finished) - np.arange(len(finished)) + unfinished
    survival = np.ones(len(finished) + 1)
    survival[1:] = np.cumprod(1.0 - 1.0 / at_risk)
    indices: dict[float, float] = {}
    for seconds in attained_seconds:
        if seconds not in indices:
            indices[seconds] = max(
                _best_rate(seconds, finished, survival),
                1.0 / (2 * seconds + _USUAL_SECONDS),
            )
    return [indices[seconds] for seconds in attained_seconds]


def _best_rate(
    attained: float, finished: NDArray[np.float64], survival: NDArray[np.float64]
) -> float:
    """Return the best rate of the stretches that end at a finish; 0 where none is ahead."""
    first = int(np.searchsorted(finished, attained, side="right"))
    if first == len(finished):
        return 0.0
    alive = survival[first:]
    steps = np.diff(finished[first:], prepend=attained)
    expected_seconds = np.cumsum(alive[:-1] * steps)
    finishing = alive[0] - alive[1:]
    return float(np.max(finishing / (expected_seconds + _RESOLUTION_SECONDS * alive[0])))
