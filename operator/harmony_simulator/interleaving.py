"""How fast a group runs in Muri's published simulator (SIGCOMM 2022).

Loading, computing and network are three resources; members take turns on each, every one an
iteration per cycle. The cycle is the recurrence of that simulator, kept as it is, in which the
loading of neighbours may overlap. Depends on the members' stages alone, so it is remembered.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import Final

from harmony_simulator.charges import SHARED_SLOWDOWN, alone_seconds
from harmony_simulator.trace import Stages, TraceJob

MOST_JOBS: Final = 4
_SLOTS: Final = 4
"""Of a period: two of loading, one of computing, one of network."""
_STEADY: Final = 1e-3


def cycle_seconds(jobs: Sequence[TraceJob]) -> float:
    """Return the charged time in which each of the jobs, on the same GPUs, iterates once."""
    if len(jobs) == 1:
        return alone_seconds(jobs[0])
    stages = tuple(sorted((job.stages for job in jobs), key=_by_stage))
    return SHARED_SLOWDOWN[len(jobs)] * ideal_seconds(stages)


@lru_cache(maxsize=1 << 18)
def ideal_seconds(stages: tuple[Stages, ...]) -> float:
    """Return the interleaved time of two to four jobs without any slowdown: the best order's."""
    best = min(_steady_seconds(order) for order in permutations(stages))
    if len(stages) == 2:
        a, b = stages
        one = max(a.load_seconds, b.compute_seconds + b.network_seconds)
        other = max(b.load_seconds, a.compute_seconds + a.network_seconds)
        best = min(best, one + other)
    return best


def _by_stage(stages: Stages) -> tuple[float, float, float]:
    return stages.load_seconds, stages.compute_seconds, stages.network_seconds


def _steady_seconds(order: Sequence[Stages]) -> float:
    """Return the period of the slots' starts in one order, from the second period on."""
    count = len(order)
    starts = [0.0] * (2 * _SLOTS + 1)
    for slot in range(2 * _SLOTS):
        computing, sending, loading = ((slot + ahead) % _SLOTS for ahead in (2, 1, 3))
        ready = 0.0
        if sending < count:
            ready = max(ready, starts[slot] + order[sending].network_seconds)
        if computing < count:
            ready = max(ready, starts[slot] + order[computing].compute_seconds)
        if loading < count and slot > 0:
            ready = max(ready, starts[slot - 1] + order[loading].load_seconds)
        starts[slot + 1] = ready
        if slot >= _SLOTS:
            period = starts[slot + 1] - starts[slot + 1 - _SLOTS]
            before = starts[slot] - starts[slot - _SLOTS]
            if period and abs(period - before) <= _STEADY * max(abs(period), abs(before)):
                return period
    return starts[2 * _SLOTS] - starts[_SLOTS]
