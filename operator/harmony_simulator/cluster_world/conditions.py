"""What a cluster does to its jobs besides scheduling them; the same for every policy.

Failures and slow spells are drawn node by node before the run, so they come at the same times
under every policy, and a run is a function of its seed.
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from random import Random
from typing import Final

_HORIZON_SECONDS: Final = 90 * 86_400.0
"""No failure and no slow spell begins later than this."""


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """The surroundings of one run."""

    seed: int = 1
    startup_seconds: float = 30.0
    """From the moment in which a job has its slots to its first iteration there: at its start,
    and again whenever it was moved, preempted, or lost a worker. Its servers keep the model, so
    no iteration is lost."""
    noise: float = 0.05
    """Standard deviation, of the logarithm, of a measured phase over the true one, and of a
    group's true cycle over the one that its phases give."""
    failures_per_node_day: float = 0.0
    repair_seconds: float = 1800.0
    slow_spells_per_node_day: float = 0.0
    slow_spell_seconds: float = 1800.0
    slow_factor: float = 1.5
    """An iteration takes so many times as long while one of its workers is on a slow node."""

    def __post_init__(self) -> None:
        for name, least in (
            ("startup_seconds", 0.0),
            ("noise", 0.0),
            ("failures_per_node_day", 0.0),
            ("repair_seconds", 1.0),
            ("slow_spells_per_node_day", 0.0),
            ("slow_spell_seconds", 1.0),
            ("slow_factor", 1.0),
        ):
            if not getattr(self, name) >= least:
                raise ValueError(f"{name} is at least {least:g}, not {getattr(self, name):g}")

    def nodes(self, count: int) -> "Nodes":
        """Return the condition of `count` nodes over time."""
        return Nodes(
            failures=[
                _spells(
                    f"failure/{self.seed}/{node}", self.failures_per_node_day, self.repair_seconds
                )
                for node in range(count)
            ],
            slow_spells=[
                _spells(
                    f"slow/{self.seed}/{node}",
                    self.slow_spells_per_node_day,
                    self.slow_spell_seconds,
                )
                for node in range(count)
            ],
        )


@dataclass(frozen=True)
class Spell:
    """A stretch of time, in seconds; its end is no part of it."""

    start: float
    end: float


@dataclass(frozen=True)
class Nodes:
    """When each node is down, and when it is slow."""

    failures: Sequence[Sequence[Spell]]
    slow_spells: Sequence[Sequence[Spell]]

    def up(self, now_seconds: float) -> list[int]:
        """Return the nodes that work."""
        return [n for n, spells in enumerate(self.failures) if not _holds(spells, now_seconds)]

    def slow(self, now_seconds: float) -> frozenset[int]:
        """Return the nodes that are slow."""
        return frozenset(
            n for n, spells in enumerate(self.slow_spells) if _holds(spells, now_seconds)
        )

    def next_change(self, now_seconds: float) -> float | None:
        """Return when a node goes down, comes back or changes its speed next."""
        at = bisect_right(self._changes, now_seconds)
        return self._changes[at] if at < len(self._changes) else None

    @cached_property
    def _changes(self) -> list[float]:
        every = [spell for node in (*self.failures, *self.slow_spells) for spell in node]
        return sorted({time for spell in every for time in (spell.start, spell.end)})


def _spells(seed: str, per_day: float, length_seconds: float) -> list[Spell]:
    if per_day == 0:
        return []
    random = Random(seed)
    found: list[Spell] = []
    start = random.expovariate(per_day / 86_400)
    while start < _HORIZON_SECONDS:
        found.append(Spell(start, start + length_seconds))
        start = found[-1].end + random.expovariate(per_day / 86_400)
    return found


def _holds(spells: Sequence[Spell], now_seconds: float) -> bool:
    return any(spell.start <= now_seconds < spell.end for spell in spells)
