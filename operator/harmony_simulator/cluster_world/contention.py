"""Jobs that share a slot without permits: how fast each is, left to fight.

Whoever computes shares the device equally with all others that compute, and so it is on the
link. Phases vary from one iteration to the next, so jobs meet in all ways, sometimes both
computing and sometimes one in the other's gaps. Checked against a measured pair: a perceptron
and a transformer of the examples, at 1.33 times the speed of one after the other, both here
and when they were run (see docs/simulator.md).
"""

from collections.abc import Sequence
from functools import lru_cache
from random import Random
from typing import Final

VARIATION: Final = 0.1
"""Of the length of a phase, from iteration to iteration: standard deviation of its logarithm."""
_ITERATIONS: Final = 60
_LARGEST_EVENT_COUNT: Final = 6000
_RESOLUTION: Final = 1e-12


@lru_cache(maxsize=20_000)
def contended_seconds(phases: tuple[tuple[float, float], ...]) -> tuple[float, ...]:
    """Return the seconds per iteration of each of the jobs on one slot.

    `phases` has seconds of COMP and of network for each job; some time in total.
    """
    if len(phases) == 1:
        return (sum(phases[0]),)
    random = Random(0)
    members = range(len(phases))
    stage = [random.randrange(2) for _ in members]
    left = [phases[m][stage[m]] * random.random() for m in members]
    done = [0] * len(phases)
    now = 0.0
    for _ in range(_LARGEST_EVENT_COUNT):
        users = stage.count(0), stage.count(1)
        elapsed = min(left[m] * users[stage[m]] for m in members)
        now += elapsed
        for m in members:
            left[m] -= elapsed / users[stage[m]]
            if left[m] <= _RESOLUTION:
                done[m] += stage[m]
                stage[m] = 1 - stage[m]
                left[m] = phases[m][stage[m]] * random.lognormvariate(0, VARIATION)
        if min(done) >= _ITERATIONS:
            break
    return _per_iteration(phases, done, now)


def _per_iteration(
    phases: Sequence[tuple[float, float]], done: Sequence[int], seconds: float
) -> tuple[float, ...]:
    """Return the seconds of each; nobody is faster than alone."""
    return tuple(
        max(sum(alone), seconds / count if count else seconds)
        for alone, count in zip(phases, done, strict=True)
    )
