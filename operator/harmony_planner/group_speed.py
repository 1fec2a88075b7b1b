"""How fast the present groups really are, against what the planner expected of them.

A plan begins a measurement of each of its groups. Once every member has run for a while,
undisturbed by restarts, the measured cycle corrects the planner's next predictions for that
group, and a pair that is slower than in turn is told apart for good.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from harmony_planner.performance import correction
from harmony_planner.snapshot import Group, Plan

CYCLES_TO_MEASURE = 20
SECONDS_TO_MEASURE = 5.0
SLOWER_THAN_IN_TURN = 1.02


@dataclass(frozen=True)
class Count:
    """Where a job stands: iterations done, and restarts of its processes so far."""

    iterations: int
    restarts: int


@dataclass(frozen=True)
class _Start:
    group: Group
    at: float
    counts: Mapping[str, Count]
    correction: float


class GroupSpeeds:
    """The groups of the present plan, measured from its start."""

    def __init__(self) -> None:
        self.corrections: dict[str, float] = {}
        """Measured over predicted cycle, by group."""
        self._starts: dict[str, _Start] = {}

    def begin(self, decision: Plan, counts: Mapping[str, Count], now: float) -> None:
        """A new plan is in force; groups whose members stay keep their correction."""
        before = {name: start.group for name, start in self._starts.items()}
        self._starts = {}
        for group in decision.groups:
            same = group.name in before and _jobs(before[group.name]) == _jobs(group)
            factor = self.corrections.get(group.name, 1.0) if same else 1.0
            self.corrections[group.name] = factor
            members = {job: counts[job] for job in _jobs(group)}
            self._starts[group.name] = _Start(group, now, members, factor)

    def measured_cycles(self, counts: Mapping[str, Count], now: float) -> dict[str, float]:
        """Return seconds per cycle of the groups that ran long enough, by group."""
        found = {}
        for name, start in self._starts.items():
            if now - start.at < SECONDS_TO_MEASURE or len(start.group.members) < 2:
                continue
            cycles = []
            for member in start.group.members:
                then, count = start.counts[member.job], counts.get(member.job)
                if count is None or count.restarts != then.restarts:
                    break
                cycles.append((count.iterations - then.iterations) / member.rounds)
            else:
                if min(cycles) >= CYCLES_TO_MEASURE:
                    found[name] = (now - start.at) / min(cycles)
        return found

    def learn(self, counts: Mapping[str, Count], now: float) -> frozenset[frozenset[str]]:
        """Correct the groups that can be measured; return the pairs to keep apart."""
        apart = set()
        for name, cycle_seconds in self.measured_cycles(counts, now).items():
            start = self._starts[name]
            prediction = start.group.prediction
            if prediction is None:
                continue
            uncorrected = prediction.cycle_seconds / start.correction
            self.corrections[name] = correction(cycle_seconds, uncorrected)
            slower = cycle_seconds > prediction.serial_seconds * SLOWER_THAN_IN_TURN
            if slower and len(start.group.members) == 2:
                apart.add(_jobs(start.group))
        return frozenset(apart)


def _jobs(group: Group) -> frozenset[str]:
    return frozenset(member.job for member in group.members)
