"""Harmony's choice of groups under Muri's charges, so that the two can be compared.

The planner decides who runs and with whom; times, slowdowns and start-up are Muri's, also in
the model by which the planner judges a group. One object serves with known durations, where it
reads what a job has left, the other without, where it reads only what a job has done and what
the finished ones took in all. Where no sharing pays and durations are known, nothing beats the
shortest remaining service first.
"""

from collections.abc import Sequence
from typing import Final

from harmony_planner.completion_rates import completion_rates
from harmony_planner.densest_groups import Candidate, Group
from harmony_planner.progress_groups import choose_groups, first_that_fit
from harmony_planner.progress_values import in_line, progress_values
from harmony_simulator.charges import alone_seconds
from harmony_simulator.interleaving import cycle_seconds
from harmony_simulator.policies.muri import NEAR_EVENTS, executions
from harmony_simulator.policies.single import remaining_seconds
from harmony_simulator.policy import Decision, Execution, JobState, Pool
from harmony_simulator.trace import Cluster, Stages, TraceJob

_LEAST_SECONDS: Final = 1.0
"""Left to a job that is about to finish: its rate stays finite."""


class Harmony:
    """Groups that make progress worth the most."""

    simultaneity = NEAR_EVENTS

    def __init__(self, *, durations_known: bool) -> None:
        self.name = "Harmony" if durations_known else "Harmony, durations unknown"
        self._durations_known = durations_known
        self._profiles: dict[tuple[Stages, float], int] = {}
        self._cycles: dict[tuple[int, ...], float] = {}
        """By the members' profiles, in order of their numbers: few kinds of jobs meet often."""
        self._finished_seconds: list[float] = []
        self._unfinished: dict[str, JobState] = {}

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:  # noqa: ARG002
        """Return the planner's groups, widest first so that they fit on nodes."""
        self._remember(active)
        fitting = [state for state in active if state.job.gpus <= cluster.gpus]
        states = {state.job.id: state for state in fitting}
        widths = [state.job.gpus for state in fitting]
        rates = self._rates(fitting)
        values = progress_values(widths, rates)
        candidates = [
            Candidate(
                name=state.job.id,
                gpus=state.job.gpus,
                profile=self._profile(state.job),
                alone_seconds=alone_seconds(state.job),
                value=value,
            )
            for state, value in zip(fitting, values, strict=True)
        ]

        def group_cycle_seconds(group: Group) -> float:
            key = tuple(sorted([member.profile for member in group]))
            if key not in self._cycles:
                self._cycles[key] = cycle_seconds([states[member.name].job for member in group])
            return self._cycles[key]

        groups = choose_groups(candidates, cluster.gpus, group_cycle_seconds)
        if self._durations_known and all(len(group) == 1 for group in groups):
            line = [candidates[place] for place in in_line(widths, rates)]
            groups = first_that_fit(line, cluster.gpus)
        pool = Pool(cluster)
        running: dict[str, Execution] = {}
        for group in sorted(groups, key=lambda group: -group[0].gpus):
            if pool.take(group[0].gpus):
                running |= executions(tuple(states[member.name] for member in group))
        return Decision(running, pool.used, active)

    def _profile(self, job: TraceJob) -> int:
        """Return the number of a job's kind."""
        return self._profiles.setdefault((job.stages, job.iteration_seconds), len(self._profiles))

    def _rates(self, active: Sequence[JobState]) -> list[float]:
        if self._durations_known:
            return [1 / max(remaining_seconds(state), _LEAST_SECONDS) for state in active]
        return completion_rates([_done_seconds(state) for state in active], self._finished_seconds)

    def _remember(self, active: Sequence[JobState]) -> None:
        """Note what the jobs took that are gone."""
        present = {state.job.id: state for state in active}
        for name, state in self._unfinished.items():
            if name not in present:
                self._finished_seconds.append(state.job.iterations * alone_seconds(state.job))
        self._unfinished = present


def _done_seconds(state: JobState) -> float:
    """Return the work that a job has done, as it counts its own iterations."""
    done = state.job.iterations - state.remaining_iterations
    return done * alone_seconds(state.job)
