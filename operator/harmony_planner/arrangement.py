"""How the members of one group run: their cyclic order and their rounds.

Both are chosen by what the model predicts for them: the total speed of the group, among those
that keep every member within its slowdown limit. Of equals the first tried wins, which has
the longest iteration first and one round each; where it is nearly as fast as any schedule can
be, no other is tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice, permutations
from typing import TYPE_CHECKING, Final, NamedTuple

from harmony_planner.loads import load_of, speed_limit
from harmony_planner.performance import Link, alone_seconds, iteration_of, predict, shared_seconds
from harmony_planner.rounds import candidates, settle
from harmony_planner.snapshot import Job, Prediction

if TYPE_CHECKING:
    from harmony_planner.schedule import Iteration

_LEAST_GAIN: Final = 1e-3
"""Of the speed: what is less is no reason to leave the simplest arrangement."""
_NEAR_THE_LIMIT: Final = 0.98
"""Of the speed that no schedule exceeds: nothing better is looked for."""


@dataclass(frozen=True)
class Arrangement:
    """Members in cyclic order, with their rounds, and what the model expects of them."""

    rounds: Mapping[str, int]
    """By job, in cyclic order."""
    prediction: Prediction


def arrange(
    jobs: Sequence[Job],
    link: Link,
    *,
    workers: Mapping[str, int] | None = None,
    correction_factor: float = 1.0,
) -> Arrangement:
    """Return the best order and rounds of jobs that all have a usable profile.

    `workers` counts each job's workers on the node where the group has most of them, 1 where
    it is not given. Raises ValueError where a job has no profile.
    """
    members: dict[str, Iteration] = {}
    for job in jobs:
        if job.profile is None:
            raise ValueError(f"job {job.name} has no profile: it cannot be arranged")
        on_node = workers.get(job.name, 1) if workers else 1
        members[job.name] = iteration_of(job.profile, workers=on_node)
    alone = {name: alone_seconds(iteration, link) for name, iteration in members.items()}
    limits = {job.name: job.max_slowdown_percent for job in jobs}
    names = sorted(members, key=lambda name: (-alone[name], name))
    chosen = _chosen(
        tuple(members[name] for name in names),
        tuple(limits[name] for name in names),
        link,
        correction_factor,
    )
    rounds = {names[position]: count for position, count in chosen}
    group = {name: replace(members[name], rounds=count) for name, count in rounds.items()}
    return Arrangement(rounds, predict(group, link, correction_factor=correction_factor))


class _Try(NamedTuple):
    """Members by position, with their rounds, and what comes out."""

    rounds: Mapping[int, int]
    seconds: Mapping[int, float]
    """Per iteration."""
    excess_percent: float
    """By how much slowdown limits are exceeded, added up over the members."""
    speed: float

    def is_better_than(self, other: "_Try") -> bool:
        """Whether it keeps the limits better, or as well and is faster."""
        if self.excess_percent != other.excess_percent:
            return self.excess_percent < other.excess_percent
        return self.speed > other.speed * (1 + _LEAST_GAIN)


@lru_cache(maxsize=16384)
def _chosen(
    members: tuple["Iteration", ...], limits: tuple[int, ...], link: Link, factor: float
) -> tuple[tuple[int, int], ...]:
    """Return the positions of the members in their cyclic order, each with its rounds.

    Remembered without names: on a large cluster many jobs are of one kind.
    """
    if len(members) == 1:
        return ((0, 1),)
    alone = [alone_seconds(member, link) for member in members]
    enough = _NEAR_THE_LIMIT * speed_limit([load_of(member, link) for member in members], link)

    def tried(rounds: Mapping[int, int]) -> _Try:
        group = [replace(members[at], rounds=count) for at, count in rounds.items()]
        each = shared_seconds(group, link, correction_factor=factor)
        seconds = dict(zip(rounds, each, strict=True))
        speeds = {at: alone[at] / seconds[at] for at in rounds}
        excess = sum(
            max(0.0, round(100 / speed - 100) - limits[at]) for at, speed in speeds.items()
        )
        return _Try(rounds, seconds, excess, sum(speeds.values()))

    best: _Try | None = None
    for rounds in dict.fromkeys(candidates(alone)):
        one = tried(dict(enumerate(rounds)))
        best = one if best is None or one.is_better_than(best) else best
        if best.excess_percent == 0 and best.speed >= enough:
            return tuple(best.rounds.items())
    assert best is not None
    for order in _other_orders(range(len(members))):
        one = tried({at: best.rounds[at] for at in order})
        best = one if one.is_better_than(best) else best
    settled = tried(settle(best.rounds, best.seconds))
    return tuple((best if best.is_better_than(settled) else settled).rounds.items())


def _other_orders(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the cyclic orders besides the given one, each with the same member first."""
    for rest in islice(permutations(positions[1:]), 1, None):
        yield (positions[0], *rest)
