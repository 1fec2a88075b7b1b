"""Whether jobs may share slots, and what they would gain: the judgement of one group.

A group is allowed when nobody in it is Exclusive or was separated from another, it has at most
four members, its memory fits, every member stays within its slowdown limit, and together they
are faster than in turn. While a member has not been measured and gave no hint, nothing can be
predicted: it shares with one other at most, as a probe, because under permits its phases can
be measured while it shares.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from harmony_planner import memory
from harmony_planner.arrangement import Arrangement, arrange
from harmony_planner.loads import Load, load_of, speed_limit
from harmony_planner.performance import Link, is_usable, iteration_of
from harmony_planner.snapshot import Job, Slot

if TYPE_CHECKING:
    from harmony_api.profile import JobProfile

LARGEST_GROUP: Final = 4
LARGEST_PROBE: Final = 2
WORTHWHILE_GAIN: Final = 0.05
"""Of total speed: what a change of groups must bring, since it costs restarts of workers."""
RUNNING_COUNTS: Final = 0.1
"""Of total speed: so much may be given up to let one more job run."""
KEPT_MARGIN: Final = 0.25
"""By how much a running group may exceed a limit on time, or fall short of the speed in turn,
before it is broken up: measurements waver, and a split costs restarts of workers."""
PROBE_SPEED: Final = 1.25
"""Expected of a group about which nothing is known, relative to one job at a time."""


@dataclass(frozen=True)
class Judgement:
    """What is known about some jobs on some slots."""

    refusal: str | None
    """Why they may not share; None where they may."""
    speed: float
    """Total speed, each member's against its own alone; meaningful where they may share."""
    arrangement: Arrangement | None = None
    """None for a probe, and where the jobs may not share."""


def judge(
    jobs: tuple[Job, ...],
    slots: tuple[Slot, ...],
    link: Link,
    *,
    correction_factor: float = 1.0,
    running: bool = False,
) -> Judgement:
    """Judge jobs that would share slots; job j uses the first `j.workers` of them.

    `running` says that they share them already: then KEPT_MARGIN is in their favour.
    """
    refusal = why_not_together(jobs) or why_no_memory(jobs, slots)
    if refusal is not None:
        return Judgement(refusal, 0.0)
    if not all(is_usable(job.profile) for job in jobs):
        return Judgement(None, 1.0 if len(jobs) == 1 else PROBE_SPEED)
    workers = {job.name: workers_on_one_node(job, slots) for job in jobs}
    arrangement = arrange(jobs, link, workers=workers, correction_factor=correction_factor)
    margin = KEPT_MARGIN if running else 0.0
    refusal = None if len(jobs) == 1 else _too_slow(jobs, arrangement, margin)
    return Judgement(refusal, arrangement.speed, arrangement)


def why_not_together(jobs: Sequence[Job]) -> str | None:
    """Return the rule that forbids the group wherever it would be, whatever its speed."""
    if len(jobs) == 1:
        return None
    names = {job.name for job in jobs}
    for job in jobs:
        if job.policy == "Exclusive":
            return f"sharing.policy of {job.name} is Exclusive"
        if not names.isdisjoint(job.separated_from):
            return f"{job.name} was slower with {min(names & job.separated_from)} than in turn"
    if any(job.namespace != jobs[0].namespace for job in jobs):
        return "jobs of other namespaces hold slots, and only one namespace can share a device"
    if len(jobs) > LARGEST_GROUP:
        return f"a group has at most {LARGEST_GROUP} members"
    if len(jobs) > LARGEST_PROBE:
        for job in jobs:
            if not is_usable(job.profile):
                return f"{job.name} is not measured yet, and is so with one other at most"
    return None


class Loads:
    """What jobs need of their busiest node's resources; each is worked out once."""

    def __init__(self, link: Link) -> None:
        self.link = link
        self._known: dict[tuple[str, int], tuple[JobProfile | None, Load | None]] = {}

    def of(self, job: Job, slots: Sequence[Slot]) -> Load | None:
        """Return the job's load in a group on the slots; None where it was not measured."""
        on_node = workers_on_one_node(job, slots)
        key = job.name, on_node
        profile = job.profile
        known = self._known.get(key)
        if known is None or known[0] is not profile:
            load = None
            if profile is not None and is_usable(profile):
                load = load_of(iteration_of(profile, workers=on_node), self.link)
            known = self._known[key] = profile, load
        return known[1]

    def forget(self, name: str) -> None:
        """The job is gone."""
        for key in [key for key in self._known if key[0] == name]:
            del self._known[key]


def workers_on_one_node(job: Job, slots: Sequence[Slot]) -> int:
    """Return how many of the job's workers are on the node where the group has most slots."""
    if job.workers == 1 or len(slots) <= 1:
        return 1
    busiest = Counter(slot.node for slot in slots).most_common(1)[0][0]
    return max(1, sum(slot.node == busiest for slot in slots[: job.workers]))


def most_speed(loads: Sequence[Load | None], link: Link) -> float:
    """Return the total speed that no schedule of members with these loads exceeds."""
    known = [load for load in loads if load is not None]
    return speed_limit(known, link) if len(known) == len(loads) else PROBE_SPEED


def why_no_memory(jobs: Sequence[Job], slots: Sequence[Slot]) -> str | None:
    """Say on which slot the jobs' memory does not fit; None where it does."""
    for position, slot in enumerate(slots):
        why = memory.why_it_does_not_fit([job for job in jobs if job.workers > position], slot)
        if why is not None:
            return why
    return None


def _too_slow(jobs: Sequence[Job], arrangement: Arrangement, margin: float) -> str | None:
    """Return what forbids the group because of its predicted speed."""
    for job in jobs:
        slowdown = round(arrangement.slowdown_percent[job.name])
        if 100 + slowdown > (100 + job.max_slowdown_percent) * (1 + margin):
            return (
                f"{job.name} would be {slowdown} % slower than alone, "
                f"its sharing.maxSlowdownPercent is {job.max_slowdown_percent}"
            )
    if arrangement.speed * (1 + margin) <= 1:
        names = " and ".join(job.name for job in jobs)
        return f"{names} are predicted to be no faster together than in turn"
    return None
