"""The performance model: what a group's cycle takes, and what sharing costs each member.

For job j with C seconds of COMP and N of PULL, PUSH and the servers' update, one iteration
alone takes T = C + N. When j runs k times per cycle, no cycle is shorter than

    max(sum k C, load of the link, load of the servers' core, max k T)

(the model of Harmony, ICDCS 2021, with weighted rounds). On a half-duplex link the load is
sum k N: the update overlaps with another member's COMP, so it counts there. On a full-duplex
link it is the larger of sum k PULL and sum k PUSH, and the update is a load of its own where
the servers share a core. How far a schedule stays above this bound is found by running one
(see `schedule`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from harmony_api.profile import JobProfile
from harmony_planner.schedule import Iteration, iteration_seconds
from harmony_planner.snapshot import Bound, Network, Prediction

LEAST_CORRECTION: Final = 0.8
LARGEST_CORRECTION: Final = 1.5


@dataclass(frozen=True)
class Link:
    """What the members of a group have in common besides their slots."""

    network: Network = "HalfDuplex"
    servers_share_core: bool = False


def is_usable(profile: JobProfile | None) -> bool:
    """Whether a prediction can rest on the profile: there is one, and it takes some time."""
    return profile is not None and (
        profile.compute_microseconds > 0 or profile.iteration_seconds > 0
    )


def iteration_of(profile: JobProfile, *, rounds: int = 1, workers: int = 1) -> Iteration:
    """Return a profile in the form of the schedule; `workers` of the job are on one node."""
    return Iteration(
        compute_seconds=profile.compute_seconds,
        pull_seconds=profile.pull_microseconds / 1e6,
        push_seconds=profile.push_microseconds / 1e6,
        update_seconds=profile.update_seconds,
        rounds=rounds,
        workers=workers,
    )


def correction(measured_cycle_seconds: float, predicted_cycle_seconds: float) -> float:
    """Return the factor that corrects a group's prediction, bounded to 0.8 to 1.5.

    The bound keeps one odd measurement from splitting a group, or from overfilling it.
    """
    factor = measured_cycle_seconds / predicted_cycle_seconds
    return min(max(factor, LEAST_CORRECTION), LARGEST_CORRECTION)


def alone_seconds(iteration: Iteration, link: Link) -> float:
    """Return the seconds of one iteration without neighbours.

    More than T where several workers on one node take turns on its link.
    """
    if iteration.workers == 1:
        return _total(iteration)
    once = iteration if iteration.rounds == 1 else replace(iteration, rounds=1)
    return _run((once,), link)[0]


def cycle_bound(members: Sequence[Iteration], link: Link) -> tuple[float, Bound]:
    """Return the seconds below which no cycle of these rounds can be, and what sets them."""
    transfers = [member.rounds * member.workers for member in members]
    pull = sum(n * member.pull_seconds for n, member in zip(transfers, members, strict=True))
    push = sum(n * member.push_seconds for n, member in zip(transfers, members, strict=True))
    update = sum(member.rounds * member.update_seconds for member in members)
    loads: dict[Bound, float] = {
        "Compute": sum(member.rounds * member.compute_seconds for member in members)
    }
    if link.network == "HalfDuplex":
        loads["Network"] = pull + push + update
    else:
        loads["Network"] = max(pull, push)
        loads["Servers"] = update if link.servers_share_core else 0.0
    loads["Job"] = max(member.rounds * alone_seconds(member, link) for member in members)
    largest = max(loads, key=lambda bound: loads[bound])
    return loads[largest], largest


def shared_seconds(
    iterations: Sequence[Iteration], link: Link, *, correction_factor: float = 1.0
) -> list[float]:
    """Return the seconds per iteration of members that run together in this order.

    Every iteration must take some time. A correction is of what sharing costs, so it is nothing
    to a member that is left alone.
    """
    factor = correction_factor if len(iterations) > 1 else 1.0
    together = _run(tuple(iterations), link)
    return [
        max(alone_seconds(one, link), factor * seconds)
        for one, seconds in zip(iterations, together, strict=True)
    ]


def predict(
    members: Mapping[str, Iteration], link: Link, *, correction_factor: float = 1.0
) -> Prediction:
    """Predict a group whose members, by name, run in this cyclic order.

    Every iteration must take some time.
    """
    iterations = tuple(members.values())
    bound_seconds, bound = cycle_bound(iterations, link)
    alone = [alone_seconds(iteration, link) for iteration in iterations]
    shared = shared_seconds(iterations, link, correction_factor=correction_factor)
    cycle = max(
        bound_seconds,
        *(one.rounds * seconds for one, seconds in zip(iterations, shared, strict=True)),
    )
    loads = list(zip(iterations, shared, strict=True))
    if link.network == "HalfDuplex":
        network = sum(_network(one) / seconds for one, seconds in loads)
    else:
        network = max(
            sum(one.workers * one.pull_seconds / seconds for one, seconds in loads),
            sum(one.workers * one.push_seconds / seconds for one, seconds in loads),
        )
    return Prediction(
        cycle_seconds=cycle,
        bound_seconds=bound_seconds,
        bound=bound,
        serial_seconds=sum(
            one.rounds * seconds for one, seconds in zip(iterations, alone, strict=True)
        ),
        compute_utilisation=min(1.0, sum(one.compute_seconds / seconds for one, seconds in loads)),
        network_utilisation=min(1.0, network),
        iteration_seconds=dict(zip(members, shared, strict=True)),
        slowdown_percent={
            name: 100 * (seconds / unshared - 1)
            for name, seconds, unshared in zip(members, shared, alone, strict=True)
        },
    )


def _total(iteration: Iteration) -> float:
    return (
        iteration.compute_seconds
        + iteration.pull_seconds
        + iteration.push_seconds
        + iteration.update_seconds
    )


def _network(iteration: Iteration) -> float:
    transfers = iteration.pull_seconds + iteration.push_seconds
    return iteration.workers * transfers + iteration.update_seconds


@lru_cache(maxsize=16384)
def _run(iterations: tuple[Iteration, ...], link: Link) -> list[float]:
    if len(iterations) == 1 and iterations[0].workers == 1:
        return [_total(iterations[0])]
    return iteration_seconds(iterations, link.network, servers_share_core=link.servers_share_core)
