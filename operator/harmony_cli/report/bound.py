"""The bound: no schedule of the measured phases finishes a set of jobs sooner.

While a set of jobs runs, a cycle in which job j does k_j iterations takes at least
max(sum k_j C_j, sum k_j N_j, max k_j T_j): one device, one network, and no job faster than
alone. The bound adds this up over the intervals between two finishes. A full-duplex link is
two resources, and the servers' update then a third.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Self

from harmony_api.profile import JobProfile


@dataclass(frozen=True)
class Load:
    """What a job has to do, and what one iteration costs on each resource."""

    iterations: float
    demands: tuple[float, ...]
    """Seconds per iteration on each exclusive resource, COMP first; alike for all jobs."""
    rounds: int = 1
    """Iterations per cycle."""

    @classmethod
    def of(
        cls,
        profile: JobProfile,
        iterations: float,
        rounds: int,
        network: Literal["HalfDuplex", "FullDuplex"],
    ) -> Self:
        """Return the load of a profiled job on a node with that network."""
        if network == "HalfDuplex":
            demands: tuple[float, ...] = (profile.compute_seconds, profile.network_seconds)
        else:
            demands = (
                profile.compute_seconds,
                profile.pull_microseconds / 1e6,
                profile.push_microseconds / 1e6,
                profile.update_seconds,
            )
        return cls(iterations, demands, rounds)


def resource_seconds(loads: Sequence[Load]) -> list[float]:
    """Return how long one cycle of all the loads keeps each resource busy."""
    return [
        sum(load.rounds * seconds for load, seconds in zip(loads, demands, strict=True))
        for demands in zip(*(load.demands for load in loads), strict=True)
    ]


def cycle_bound_seconds(loads: Sequence[Load]) -> float:
    """Return the least time in which each job does its rounds; 0 without jobs."""
    alone = [load.rounds * sum(load.demands) for load in loads]
    return max([*resource_seconds(loads), *alone], default=0.0)


def bound_seconds(loads: Sequence[Load]) -> float:
    """Return the least time in which jobs that start together finish all their iterations."""
    seconds = 0.0
    left = {index: load.iterations / load.rounds for index, load in enumerate(loads)}
    while left := {index: cycles for index, cycles in left.items() if cycles > 0}:
        cycles = min(left.values())
        seconds += cycles * cycle_bound_seconds([loads[index] for index in left])
        left = {index: remaining - cycles for index, remaining in left.items()}
    return seconds
