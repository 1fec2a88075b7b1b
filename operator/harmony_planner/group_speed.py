"""How fast the present groups really are, against what the planner expected of them.

A plan begins a measurement of each of its groups. Once every member has run for a while,
undisturbed by restarts, the measured cycle corrects the planner's next predictions for that
group, and a pair that is slower than in turn is told apart for good: only when it was so twice
in a row, since a machine that is busy otherwise makes one measurement look bad. Plans in
between, also such that part the pair, make the first time no less true.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Final

from harmony_planner.performance import correction
from harmony_planner.snapshot import Group, Plan

CYCLES_TO_MEASURE: Final = 20
SECONDS_TO_MEASURE: Final = 5.0
SLOWER_THAN_IN_TURN: Final = 1.02


@dataclass(frozen=True)
class Count:
    """Where a job stands."""

    iterations: int
    """Done so far, by the worker that is behind."""
    incarnation: Hashable
    """Another value once one of its processes was started anew."""
    at_seconds: float
    """When this was so, by any clock that does not go back."""


@dataclass
class _Measurement:
    group: Group
    correction: float
    """That the group's prediction was made with."""
    starts: Mapping[str, Count] = field(default_factory=dict)


class GroupSpeeds:
    """The groups of the present plan, measured from its start."""

    def __init__(self) -> None:
        self.corrections: dict[str, float] = {}
        """Measured over predicted cycle, by group."""
        self._members: dict[str, frozenset[str]] = {}
        self._measurements: dict[str, _Measurement] = {}
        self._suspected: set[frozenset[str]] = set()
        """Pairs that were slower than in turn when they were measured last."""

    def resume(self, group: str, members: frozenset[str], factor: float) -> None:
        """Take over a correction that was measured earlier, by somebody else."""
        self.corrections[group] = factor
        self._members[group] = members

    def begin(self, decision: Plan, counts: Mapping[str, Count]) -> None:
        """A new plan is in force; groups whose members stay keep their correction."""
        corrections = {
            group.name: self.corrections.get(group.name, 1.0)
            if self._members.get(group.name) == _jobs(group)
            else 1.0
            for group in decision.groups
        }
        self.corrections = corrections
        self._members = {group.name: _jobs(group) for group in decision.groups}
        self._measurements = {
            group.name: _Measurement(group, corrections[group.name])
            for group in decision.groups
            if len(group.members) > 1
        }
        known = {job for jobs in self._members.values() for job in jobs}
        known |= {waiting.job for waiting in decision.waiting}
        self._suspected = {pair for pair in self._suspected if pair <= known}
        self._start_undisturbed(counts)

    def measured_cycles(self, counts: Mapping[str, Count]) -> dict[str, float]:
        """Return seconds per cycle of the groups that ran long enough, by group."""
        found = {}
        for name, measurement in self._measurements.items():
            cycles = [
                (then, now, (now.iterations - then.iterations) / member.rounds)
                for member in measurement.group.members
                if (then := measurement.starts.get(member.job)) is not None
                and (now := counts.get(member.job)) is not None
                and now.incarnation == then.incarnation
                and now.at_seconds - then.at_seconds >= SECONDS_TO_MEASURE
                and (now.iterations - then.iterations) / member.rounds >= CYCLES_TO_MEASURE
            ]
            if len(cycles) == len(measurement.group.members):
                found[name] = max(
                    (now.at_seconds - then.at_seconds) / count for then, now, count in cycles
                )
        return found

    def learn(self, counts: Mapping[str, Count]) -> frozenset[frozenset[str]]:
        """Correct the groups that can be measured; return the pairs to keep apart."""
        self._start_undisturbed(counts)
        apart = set()
        for name, cycle_seconds in self.measured_cycles(counts).items():
            measurement = self._measurements[name]
            prediction = measurement.group.prediction
            if prediction is None:
                continue
            uncorrected = prediction.cycle_seconds / measurement.correction
            self.corrections[name] = correction(cycle_seconds, uncorrected)
            slower = cycle_seconds > prediction.serial_seconds * SLOWER_THAN_IN_TURN
            jobs = _jobs(measurement.group)
            if not slower or len(jobs) != 2:
                self._suspected.discard(jobs)
            elif jobs in self._suspected:
                apart.add(jobs)
            else:
                self._suspected.add(jobs)
                measurement.starts = {job: counts[job] for job in jobs}
        return frozenset(apart)

    def _start_undisturbed(self, counts: Mapping[str, Count]) -> None:
        """Begin anew where a member was not there at the start, or was restarted since."""
        for measurement in self._measurements.values():
            names = _jobs(measurement.group)
            disturbed = any(
                name not in measurement.starts
                or measurement.starts[name].incarnation != counts[name].incarnation
                for name in names & counts.keys()
            )
            if disturbed and names <= counts.keys():
                measurement.starts = {name: counts[name] for name in names}


def _jobs(group: Group) -> frozenset[str]:
    return frozenset(member.job for member in group.members)
