"""How often each member runs in a cycle.

Rounds do two things in the arbiter: a member with turns left in the cycle goes before one
that has none, and on the link those with most rounds overtake the others, as long as they have
turns left. Without that, a short job waits for each whole transfer of a long one and falls
into step with it, one iteration for one; with it, it runs several in the gaps. But COMP is not
preempted, so how many it really runs is found by running the schedule, and the rounds are set
to what comes out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

MOST_ROUNDS: Final = 8
_EXTRA_ROUNDS: Final = (0, 1, 2, 3)


def candidates(seconds: Sequence[float]) -> Iterator[tuple[int, ...]]:
    """Yield the rounds worth trying for members whose iterations take `seconds` alone.

    First all alike. Then the longest once, and the others as often as each would fit into it,
    and a little oftener: while the longest waits for them they run in its gaps as well.
    """
    yield (1,) * len(seconds)
    longest = max(seconds)
    if min(seconds) == longest:
        return
    for extra in _EXTRA_ROUNDS:
        yield tuple(
            1 if each == longest else min(int(longest / each) + extra, MOST_ROUNDS)
            for each in seconds
        )


def settle(rounds: Mapping[str, int], iteration_seconds: Mapping[str, float]) -> Mapping[str, int]:
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


def _ranks(rounds: Mapping[str, int]) -> dict[str, int]:
    order = sorted(set(rounds.values()))
    return {name: order.index(count) for name, count in rounds.items()}
