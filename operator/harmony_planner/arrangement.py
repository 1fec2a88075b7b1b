"""How the members of one group run: their cyclic order and their rounds.

Both are chosen by what the model predicts for them: the total speed of the group, among those
that keep every member within its slowdown limit. Of equals the first tried wins, which has
the longest iteration first and one round each.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice, permutations
from typing import TYPE_CHECKING, Final

from harmony_planner.performance import Link, alone_seconds, iteration_of, predict
from harmony_planner.rounds import candidates, settle
from harmony_planner.snapshot import Job, Prediction

if TYPE_CHECKING:
    from harmony_planner.schedule import Iteration

_LEAST_GAIN: Final = 1e-3
"""Of the speed: what is less is no reason to leave the simplest arrangement."""


@dataclass(frozen=True)
class Arrangement:
    """Members in cyclic order, with their rounds, and what the model expects of them."""

    rounds: Mapping[str, int]
    """By job, in cyclic order."""
    prediction: Prediction
    excess_percent: float
    """By how much slowdown limits are exceeded, added up over the members."""

    def is_better_than(self, other: "Arrangement") -> bool:
        """Whether it keeps the limits better, or as well and is faster."""
        if self.excess_percent != other.excess_percent:
            return self.excess_percent < other.excess_percent
        return self.prediction.speedup > other.prediction.speedup * (1 + _LEAST_GAIN)


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
    limits = {job.name: job.max_slowdown_percent for job in jobs}
    alone = {name: alone_seconds(iteration, link) for name, iteration in members.items()}
    names = sorted(members, key=lambda name: (-alone[name], name))

    def tried(counts: Mapping[str, int]) -> Arrangement:
        group = {name: replace(members[name], rounds=count) for name, count in counts.items()}
        prediction = predict(group, link, correction_factor=correction_factor)
        return Arrangement(counts, prediction, _excess(prediction, limits))

    best = _best(
        tried(dict(zip(names, counts, strict=True)))
        for counts in candidates([alone[name] for name in names])
    )
    orders = [{name: best.rounds[name] for name in order} for order in _other_orders(names)]
    best = _best([best, *map(tried, orders)])
    settled = tried(settle(best.rounds, best.prediction.iteration_seconds))
    return best if best.is_better_than(settled) else settled


def _excess(prediction: Prediction, limits: Mapping[str, int]) -> float:
    slowdowns = prediction.slowdown_percent.items()
    return sum(max(0.0, round(slowdown) - limits[name]) for name, slowdown in slowdowns)


def _best(tries: Iterable[Arrangement]) -> Arrangement:
    first, *others = tries
    for each in others:
        if each.is_better_than(first):
            first = each
    return first


def _other_orders(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the cyclic orders besides the given one, each with the same member first."""
    for rest in islice(permutations(names[1:]), 1, None):
        yield (names[0], *rest)
