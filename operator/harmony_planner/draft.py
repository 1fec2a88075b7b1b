"""A group in the making: who, where, and what was found out about it."""

from dataclasses import dataclass

from harmony_planner.grouping import RUNNING_COUNTS, Judgement
from harmony_planner.loads import Load
from harmony_planner.snapshot import Job, Slot


@dataclass(frozen=True, eq=False)
class Draft:
    """Some jobs on some slots, judged."""

    name: str
    slots: tuple[Slot, ...]
    jobs: tuple[Job, ...]
    correction: float
    judgement: Judgement
    loads: tuple[Load | None, ...]
    """Of each job; None where it has not been measured."""

    @property
    def speed(self) -> float:
        """Total speed of the members; meaningful where they may share."""
        return self.judgement.speed

    @property
    def value(self) -> float:
        """What a plan has of the group: its speed, and a little for each job that runs at all."""
        return self.judgement.speed + RUNNING_COUNTS * len(self.jobs)

    def is_alike(self, other: "Draft | None") -> bool:
        """Whether the same jobs are on the same slots."""
        return (
            other is not None
            and self.slots == other.slots
            and {job.name for job in self.jobs} == {job.name for job in other.jobs}
        )
