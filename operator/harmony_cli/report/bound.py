"""The least time that the measured phases of some jobs allow, whatever the schedule.

Two answers. `least_seconds` holds for every schedule: no resource can be busy for less than
all that the jobs ask of it. `bound_seconds` is what to compare a cyclic schedule with: in
each cycle every member does its rounds, and a job that has ended leaves the others alone.
Both come from the performance model's bound of a cycle; the whole run is one cycle in which
the rounds are all iterations.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

from harmony_api.profile import JobProfile
from harmony_planner.performance import Link, cycle_bound, iteration_of
from harmony_planner.schedule import Iteration
from harmony_planner.snapshot import Bound, Network


@dataclass(frozen=True)
class Load:
    """What a job has to do on a node, and what one of its iterations costs there."""

    iterations: int
    iteration: Iteration
    network: Network

    @classmethod
    def of(
        cls,
        profile: JobProfile,
        iterations: int,
        rounds: int,
        network: Network,
        workers: int = 1,
    ) -> Self:
        """Return the load of a profiled job that has `workers` on the node."""
        return cls(iterations, iteration_of(profile, rounds=rounds, workers=workers), network)


def least_seconds(loads: Sequence[Load]) -> tuple[float, Bound]:
    """Return the seconds below which no schedule finishes, and what sets them."""
    whole_run = [replace(load.iteration, rounds=load.iterations) for load in loads]
    return cycle_bound(whole_run, Link(loads[0].network))


def bound_seconds(loads: Sequence[Load]) -> float:
    """Return the least time of jobs that start together and keep to their rounds.

    While a set of jobs runs a cycle takes at least max(sum k C, sum k N, max k T); this is
    added up over the intervals between two finishes.
    """
    seconds = 0.0
    left = [(load.iterations / load.iteration.rounds, load) for load in loads]
    while left := [(cycles, load) for cycles, load in left if cycles > 0]:
        cycles = min(cycles for cycles, _ in left)
        running = [load.iteration for _, load in left]
        seconds += cycles * cycle_bound(running, Link(left[0][1].network))[0]
        left = [(remaining - cycles, load) for remaining, load in left]
    return seconds
