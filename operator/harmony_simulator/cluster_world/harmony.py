"""Harmony in its own world: the planner is asked as the operator asks it, and then it runs.

A new job has no profile, or a hint of its owner's; it is measured in its first iterations,
without a hint alone or beside one other.
The planner is asked when a job arrives or ends, when jobs were measured, and when slots come or
go, by the rules of `harmony_planner.triggers`; the measured cycles correct it as they do in the
operator. It never sees the truth: profiles are measured with an error, and a group's true cycle
differs from what its phases give.
"""

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Final

from harmony_api.profile import JobProfile
from harmony_planner.group_speed import (
    CYCLES_TO_MEASURE,
    SECONDS_TO_MEASURE,
    Count,
    GroupSpeeds,
)
from harmony_planner.performance import Link, iteration_of, predict
from harmony_planner.planner import plan
from harmony_planner.remembered import Remembered
from harmony_planner.snapshot import CurrentGroup, Group, Job, Plan, Slot, Snapshot
from harmony_planner.triggers import LastPlan, reason_to_plan
from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.cluster_world.phases import (
    MEASURED_ITERATIONS,
    hint,
    measured_profile,
    true_profile,
)
from harmony_simulator.cluster_world.world import Arrangement, Places, Situation
from harmony_simulator.policy import JobState

TRUE_OVER_MODEL: Final = 1.03
"""Median of a shared cycle over what the phases of the members, each measured alone, give: the
neighbour's caches are colder. Measured for the pair of the demo: 1.025."""
_A_LITTLE_LATER: Final = 1.001
"""So that a count that should be reached is."""


@dataclass(frozen=True)
class _Epoch:
    """When a job began where it is, to measure it from there."""

    slots: tuple[int, ...]
    number: int


class Harmony:
    """The planner, with what the operator keeps beside it."""

    def __init__(self, conditions: Conditions, *, hints: bool = False) -> None:
        self.name = "harmony-hints" if hints else "harmony"
        self._conditions = conditions
        self._hints = hints
        self._link = Link("HalfDuplex")
        self._speeds = GroupSpeeds()
        self._plan = Plan()
        self._last = LastPlan()
        self._remembered = Remembered()
        self._slots: Sequence[int] = ()
        self._separated: dict[str, set[str]] = defaultdict(set)
        self._epochs: dict[str, _Epoch] = {}
        self._true_seconds: dict[str, Mapping[str, float]] = {}
        """Of the present plan, by group."""

    def arrange(self, situation: Situation) -> Arrangement:
        """Return the places of the plan that holds, after planning anew if there is a reason."""
        jobs = {state.job.id: state for state in situation.active}
        counts = self._counts(situation)
        apart = self._speeds.learn(counts)
        for pair in apart:
            for name in pair & jobs.keys():
                self._separated[name] |= pair - {name}
        snapshot = self._snapshot(situation)
        if apart or self._is_to_plan(snapshot, situation):
            self._plan = plan(snapshot, self._remembered)
            self._slots = situation.slots
            self._last = LastPlan(
                frozenset(jobs), _measured(snapshot), situation.now_seconds, self._plan
            )
            self._speeds.begin(self._plan, counts)
            self._true_seconds = {
                group.name: self._true_iteration_seconds(group, jobs) for group in self._plan.groups
            }
        places = {
            member.job: tuple(map(int, member.slots))
            for group in self._plan.groups
            for member in group.members
        }
        self._begin_epochs(places)
        seconds = {job: each for one in self._true_seconds.values() for job, each in one.items()}
        return Arrangement(places, seconds, self._wake_seconds(situation, jobs))

    def _is_to_plan(self, snapshot: Snapshot, situation: Situation) -> bool:
        reason = reason_to_plan(
            self._last,
            frozenset(job.name for job in snapshot.jobs),
            [frozenset(member.job for member in group.members) for group in self._plan.groups],
            _measured(snapshot),
            situation.now_seconds,
        )
        return reason is not None or situation.slots != self._slots

    # ---- what the planner is told

    def _snapshot(self, situation: Situation) -> Snapshot:
        current = {m.job: group.name for group in self._plan.groups for m in group.members}
        profiles = {state.job.id: self._known_profile(state) for state in situation.active}
        return Snapshot(
            jobs=tuple(
                Job(
                    name=state.job.id,
                    submitted=at,
                    priority=state.job.priority,
                    workers=state.job.gpus,
                    profile=profiles[state.job.id],
                    separated_from=frozenset(self._separated[state.job.id]),
                    current_group=current.get(state.job.id),
                    service_seconds=self._service_seconds(state, profiles[state.job.id]),
                )
                for at, state in enumerate(situation.active)
            ),
            slots=tuple(Slot(name=str(slot), node=str(slot)) for slot in situation.slots),
            groups=tuple(
                CurrentGroup(
                    name=group.name,
                    slots=group.slots,
                    correction=self._speeds.corrections.get(group.name, 1.0),
                )
                for group in self._plan.groups
                if any(member.job in current for member in group.members)
            ),
            network=self._link.network,
        )

    def _known_profile(self, state: JobState) -> JobProfile | None:
        seed = self._conditions.seed
        if _done(state) < MEASURED_ITERATIONS:
            return hint(state.job, seed) if self._hints else None
        return measured_profile(state.job, seed, self._conditions.noise)

    @staticmethod
    def _service_seconds(state: JobState, profile: JobProfile | None) -> float:
        """Return what the job still needs of its slots alone, as far as is known."""
        seconds = profile.iteration_seconds if profile is not None else 0.0
        return state.remaining_iterations * seconds * state.job.gpus

    def _counts(self, situation: Situation) -> dict[str, Count]:
        """Return where the jobs stand whose workers have started."""
        return {
            state.job.id: Count(
                iterations=_done(state),
                incarnation=self._epochs[state.job.id].number,
                at_seconds=situation.now_seconds,
            )
            for state in situation.active
            if state.job.id in self._epochs
            and situation.ready_seconds.get(state.job.id, math.inf) <= situation.now_seconds
        }

    def _begin_epochs(self, places: Places) -> None:
        for job, slots in places.items():
            before = self._epochs.get(job)
            if before is None or before.slots != slots:
                self._epochs[job] = _Epoch(slots, 1 + (before.number if before else 0))

    def _wake_seconds(self, situation: Situation, jobs: Mapping[str, JobState]) -> float | None:
        """Return when a job is measured next, or a group's cycle can be."""
        now = situation.now_seconds
        wakes = []
        for group in self._plan.groups:
            seconds = self._true_seconds[group.name]
            ready = [situation.ready_seconds.get(m.job, math.inf) for m in group.members]
            began = max(self._last.planned_at, *ready)
            for member in group.members:
                missing = MEASURED_ITERATIONS - _done(jobs[member.job])
                if missing > 0:
                    starts = situation.ready_seconds.get(member.job, math.inf)
                    wakes.append(max(now, starts) + missing * seconds[member.job])
            if len(group.members) > 1:
                cycle = max(member.rounds * seconds[member.job] for member in group.members)
                wakes.append(began + max(SECONDS_TO_MEASURE, (CYCLES_TO_MEASURE + 1) * cycle))
        later = [wake * _A_LITTLE_LATER for wake in wakes if now < wake < math.inf]
        return min(later, default=None)

    # ---- the truth

    def _true_iteration_seconds(
        self, group: Group, jobs: Mapping[str, JobState]
    ) -> Mapping[str, float]:
        profiles = {member.job: true_profile(jobs[member.job].job) for member in group.members}
        if len(profiles) == 1:
            return {job: profile.iteration_seconds for job, profile in profiles.items()}
        members = {m.job: iteration_of(profiles[m.job], rounds=m.rounds) for m in group.members}
        random = Random(f"group/{self._conditions.seed}/{sorted(members)}")
        factor = TRUE_OVER_MODEL * random.lognormvariate(0, self._conditions.noise)
        return predict(members, self._link, correction_factor=factor).iteration_seconds


def _measured(snapshot: Snapshot) -> Mapping[str, JobProfile]:
    return {
        job.name: job.profile
        for job in snapshot.jobs
        if job.profile is not None and job.profile.iterations
    }


def _done(state: JobState) -> int:
    return int(state.job.iterations - state.remaining_iterations)
