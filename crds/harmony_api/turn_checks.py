"""Checks of recorded turns against what permits promise.

Whoever has the turns of a node's sidecars can tell from them alone whether permits were kept:
tests, benchmarks and reports do. A sidecar stamps a turn's start after the grant and its end
before it passes the release on, so the intervals of correct permits never touch. Turns
without a permit (`turn` 0) promise nothing and are left out.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from harmony_api.sidecar_state import TurnRecord

Overlap = tuple[TurnRecord, TurnRecord]
"""Two turns that must not run together; the later one second."""


def overlapping_compute_turns(turns: Iterable[TurnRecord]) -> list[Overlap]:
    """Return the COMP turns that overlap another; `turns` are those of one device."""
    return [(other, turn) for turn, others in _company(turns, ("COMP",)) for other in others]


def excessive_network_turns(
    turns: Iterable[TurnRecord],
    network: Literal["HalfDuplex", "FullDuplex"] = "HalfDuplex",
) -> list[Overlap]:
    """Return the NET turns of a node beyond one primary and one secondary on each link.

    Two turns that were granted as primaries never meet: one that finds another on the link
    was granted as a secondary, or that one was and yields to members with more rounds.
    """
    turns = list(turns)
    links = (("PULL", "PUSH"),) if network == "HalfDuplex" else (("PULL",), ("PUSH",))
    found: list[Overlap] = []
    for phases in links:
        for turn, others in _company(turns, phases):
            for other in others:
                # Turns are numbered as they are granted; they may start in another order.
                earlier, later = sorted((other, turn), key=lambda each: each.turn)
                if len(others) > 1 or not (later.secondary or earlier.secondary):
                    found.append((earlier, later))
    return found


def _company(
    turns: Iterable[TurnRecord], phases: tuple[str, ...]
) -> Iterator[tuple[TurnRecord, list[TurnRecord]]]:
    """Yield each turn with the others that run when it starts."""
    live: list[TurnRecord] = []
    chosen = [turn for turn in turns if turn.turn and turn.phase in phases]
    for turn in sorted(chosen, key=lambda each: each.start_ns):
        live = [other for other in live if other.end_ns > turn.start_ns]
        yield turn, live
        live.append(turn)
