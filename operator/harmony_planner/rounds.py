"""How often each member runs in a cycle.

Rounds do two things in the arbiter: a member with turns left in the cycle goes before one
that has none, and on the link those with most rounds overtake the others, as long as they have
turns left. Without that, a short job waits for each whole transfer of a long one and falls
into step with it, one iteration for one; with it, it runs several in the gaps. But COMP is not
preempted, so how many it really runs is found by running the schedule, and the rounds are set
to what comes out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeVar

MOST_ROUNDS: Final = 8
ALIKE: Final = 1.5
"""Members whose iterations differ by less than this factor run equally often: who has fewer
rounds runs less often also where there is nothing to overtake, and lengths are only measured."""
_SHARES: Final = (0.25, 0.5, 0.75, 1.0)
_EXTRA_ROUNDS: Final = (1, 2, 3)


def candidates(seconds: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Yield the rounds worth trying for members whose iterations take `seconds` alone.

    First all alike. Then the longest once, and the others from a quarter as often as each would
    fit into it, for the sake of the longest one's limit, to a little oftener than that: while
    the longest waits for them they run in its gaps as well.
    """
    yield (1,) * len(seconds)
    longest = max(seconds)
    if longest / min(seconds) < ALIKE:
        return
    fits = [int(longest / each) for each in seconds]
    tries = [[share * fit for fit in fits] for share in _SHARES]
    tries += [[fit + extra for fit in fits] for extra in _EXTRA_ROUNDS]
    for counts in tries:
        yield tuple(
            1 if longest / each < ALIKE else min(max(1, round(count)), MOST_ROUNDS)
            for each, count in zip(seconds, counts, strict=True)
        )


_Name = TypeVar("_Name", str, int)


def settle(
    rounds: Mapping[_Name, int], iteration_seconds: Mapping[_Name, float]
) -> Mapping[_Name, int]:
    """Return rounds that fit the seconds per iteration that the schedule gave each member.

    The slowest member runs once and the others as often as they iterate meanwhile. Who has
    more rounds than whom must stay, since it decides who overtakes: where it would change, the
    rounds are returned as they are.
    """
    slowest = max(iteration_seconds.values())
    settled = {
        name: min(MOST_ROUNDS, max(1, round(slowest / iteration_seconds[name]))) for name in rounds
    }
    return settled if _ranks(settled) == _ranks(rounds) else rounds


def _ranks(rounds: Mapping[_Name, int]) -> dict[_Name, int]:
    order = sorted(set(rounds.values()))
    return {name: order.index(count) for name, count in rounds.items()}
