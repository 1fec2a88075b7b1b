"""Checks of recorded turns against what permits promise.

Whoever has the turns of a node's sidecars can tell from them alone whether permits were kept:
tests, benchmarks and reports do. A sidecar stamps a turn's start after the grant and its end
before it passes the release on, so the intervals of correct permits never touch. Turns
without a permit (`turn` 0) promise nothing and are left out.
"""

from collections.abc import Iterable
from typing import Literal

from harmony_api.sidecar_state import TurnRecord

Overlap = tuple[TurnRecord, TurnRecord]
"""Two turns that must not run together; the later one second."""


def overlapping_compute_turns(turns: Iterable[TurnRecord]) -> list[Overlap]:
    """Return the COMP turns that overlap another; `turns` are those of one device."""
    return _beyond(_permitted(turns, ("COMP",)), at_once=1)


def excessive_network_turns(
    turns: Iterable[TurnRecord],
    network: Literal["HalfDuplex", "FullDuplex"] = "HalfDuplex",
) -> list[Overlap]:
    """Return the NET turns beyond one primary and one secondary per link of a node.

    A turn granted as the primary must find the link free, a secondary at most one other turn.
    """
    links = (("PULL", "PUSH"),) if network == "HalfDuplex" else (("PULL",), ("PUSH",))
    found: list[Overlap] = []
    for phases in links:
        transfers = _permitted(turns := list(turns), phases)
        found += _beyond(transfers, at_once=2)
        found += [pair for pair in _beyond(transfers, at_once=1) if not pair[1].secondary]
    return found


def _permitted(turns: Iterable[TurnRecord], phases: tuple[str, ...]) -> list[TurnRecord]:
    chosen = [turn for turn in turns if turn.turn and turn.phase in phases]
    return sorted(chosen, key=lambda turn: (turn.start_ns, turn.end_ns))


def _beyond(turns: list[TurnRecord], *, at_once: int) -> list[Overlap]:
    """Return (some live turn, turn) for each turn that starts while `at_once` others live."""
    live: list[TurnRecord] = []
    found: list[Overlap] = []
    for turn in turns:
        live = [other for other in live if other.end_ns > turn.start_ns]
        if len(live) >= at_once:
            found.append((live[0], turn))
        live.append(turn)
    return found
