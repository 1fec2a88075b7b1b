"""What share of each resource a job needs at full speed: cheap bounds for groups of jobs.

The total speed of a group, each member against its own alone, exceeds no resource: a job at
full speed uses the device for C of every T seconds and the link for its transfers, and neither
is there more than once. The bound needs no schedule, so it decides which groups are worth one.
"""

from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from harmony_planner.performance import Link, alone_seconds

if TYPE_CHECKING:
    from harmony_planner.schedule import Iteration


class Load(NamedTuple):
    """Shares of a job's own time alone, on the node where it has most workers."""

    compute: float
    pull: float
    push: float
    update: float
    seconds: float
    """One iteration alone."""


@lru_cache(maxsize=16384)
def load_of(iteration: "Iteration", link: Link) -> Load:
    """Return the load of a job whose iteration takes some time; its rounds do not matter."""
    seconds = alone_seconds(iteration, link)
    workers = iteration.workers
    return Load(
        iteration.compute_seconds / seconds,
        workers * iteration.pull_seconds / seconds,
        workers * iteration.push_seconds / seconds,
        iteration.update_seconds / seconds,
        seconds,
    )


def speed_limit(loads: Sequence[Load], link: Link) -> float:
    """Return the total speed, each job against its own alone, that no schedule exceeds."""
    limit = _most_that_fit([load.compute for load in loads])
    if link.network == "HalfDuplex":
        return min(limit, _most_that_fit([one.pull + one.push + one.update for one in loads]))
    if link.servers_share_core:
        limit = min(limit, _most_that_fit([load.update for load in loads]))
    return min(
        limit,
        _most_that_fit([load.pull for load in loads]),
        _most_that_fit([load.push for load in loads]),
    )


def _most_that_fit(shares: list[float]) -> float:
    """Return how many jobs fit into one resource of which each needs a share, parts counted."""
    if sum(shares) <= 1:
        return float(len(shares))
    shares.sort()
    left = 1.0
    for count, share in enumerate(shares):
        if share > left:
            return count + left / share
        left -= share
    return float(len(shares))
