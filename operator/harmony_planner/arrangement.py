"""How the members of one group run: their cyclic order and their rounds.

Both are chosen by what the model predicts for them: the total speed of the group, among those
that keep every member within its slowdown limit. Of equals the first tried wins, which has
the longest iteration first and one round each; where it is nearly as fast as any schedule can
be, no other is tried.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice, permutations
from operator import itemgetter
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

    members: Mapping[str, "Iteration"]
    """By job, in cyclic order, with their rounds."""
    link: Link
    correction_factor: float
    speed: float
    """Total speed, each member's against its own alone."""
    slowdown_percent: Mapping[str, float]
    """Of each member, see Prediction."""

    @property
    def rounds(self) -> Mapping[str, int]:
        """Iterations of each job in a cycle, in cyclic order."""
        return {name: member.rounds for name, member in self.members.items()}

    @cached_property
    def prediction(self) -> Prediction:
        """All that is expected of the group; made when it is asked for."""
        return predict(self.members, self.link, correction_factor=self.correction_factor)


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
    members: list[tuple[float, str, Iteration, int]] = []
    for job in jobs:
        if job.profile is None:
            raise ValueError(f"job {job.name} has no profile: it cannot be arranged")
        on_node = workers.get(job.name, 1) if workers else 1
        member = iteration_of(job.profile, workers=on_node)
        members.append((-alone_seconds(member, link), job.name, member, job.max_slowdown_percent))
    members.sort(key=itemgetter(0, 1))
    chosen, slowdowns = _chosen(
        tuple(member for _, _, member, _ in members),
        tuple(limit for *_, limit in members),
        link,
        correction_factor,
    )
    names = [members[at][1] for at, _ in chosen]
    return Arrangement(
        members={members[at][1]: member for at, member in chosen},
        link=link,
        correction_factor=correction_factor,
        speed=sum(100 / (100 + slowdown) for slowdown in slowdowns),
        slowdown_percent=dict(zip(names, slowdowns, strict=True)),
    )


class _Try(NamedTuple):
    """Members by position, with their rounds, and what comes out."""

    rounds: Mapping[int, int]
    seconds: Mapping[int, float]
    """Per iteration."""
    excess_percent: float
    """By how much slowdown limits are exceeded, added up over the members."""
    slowdowns: Mapping[int, float]
    """In percent."""

    @property
    def speed(self) -> float:
        """Total speed."""
        return sum([100 / (100 + slowdown) for slowdown in self.slowdowns.values()])

    def is_better_than(self, other: "_Try") -> bool:
        """Whether it keeps the limits better, or as well and is faster."""
        if self.excess_percent != other.excess_percent:
            return self.excess_percent < other.excess_percent
        return self.speed > other.speed * (1 + _LEAST_GAIN)


@lru_cache(maxsize=16384)
def _chosen(
    members: tuple["Iteration", ...], limits: tuple[int, ...], link: Link, factor: float
) -> tuple[list[tuple[int, "Iteration"]], list[float]]:
    """Return the members with their rounds in cyclic order, by position, and their slowdowns.

    Remembered without names: on a large cluster many jobs are of one kind.
    """
    alone = [alone_seconds(member, link) for member in members]
    enough = _NEAR_THE_LIMIT * speed_limit([load_of(member, link) for member in members], link)

    def with_rounds(rounds: Mapping[int, int]) -> list["Iteration"]:
        return [
            members[at] if count == 1 else replace(members[at], rounds=count)
            for at, count in rounds.items()
        ]

    def tried(rounds: Mapping[int, int]) -> _Try:
        each = shared_seconds(with_rounds(rounds), link, correction_factor=factor)
        seconds = dict(zip(rounds, each, strict=True))
        slowdowns = {at: 100 * (seconds[at] / alone[at] - 1) for at in rounds}
        excess = sum(max(0.0, round(percent) - limits[at]) for at, percent in slowdowns.items())
        return _Try(rounds, seconds, excess, slowdowns)

    def best_try() -> _Try:
        best: _Try | None = None
        for rounds in dict.fromkeys(candidates(alone)):
            one = tried(dict(enumerate(rounds)))
            best = one if best is None or one.is_better_than(best) else best
            if best.excess_percent == 0 and best.speed >= enough:
                return best
        assert best is not None
        for order in _other_orders(range(len(members))):
            one = tried({at: best.rounds[at] for at in order})
            best = one if one.is_better_than(best) else best
        settled = tried(settle(best.rounds, best.seconds))
        return best if best.is_better_than(settled) else settled

    best = best_try()
    return list(zip(best.rounds, with_rounds(best.rounds), strict=True)), list(
        best.slowdowns.values()
    )


def _other_orders(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Yield the cyclic orders besides the given one, each with the same member first."""
    for rest in islice(permutations(positions[1:]), 1, None):
        yield (positions[0], *rest)
