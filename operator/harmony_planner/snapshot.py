"""What the planner is told, and what it answers: plain frozen values.

A snapshot holds everything that a decision may rest on, so a plan is a pure function of it:
the same snapshot gives the same plan, and a plan can be tried out without doing anything.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from harmony_api.profile import JobProfile

Network = Literal["HalfDuplex", "FullDuplex"]
Policy = Literal["Shared", "Exclusive"]
Bound = Literal["Compute", "Network", "Servers", "Job"]
"""What limits a group's cycle: the device, the link, the servers' core, or one job's own
sequence of phases."""


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job that runs or wants to."""

    name: str
    submitted: int
    """Place in the queue among jobs of its priority; smaller is earlier."""
    priority: int = 0
    """The highest is first in the queue, and takes the place of lower ones where none is free."""
    namespace: str = ""
    """Jobs share within one only; empty for all where that does not matter."""
    workers: int = 1
    gpus_per_worker: int = 0
    """0: it uses CPU slots only."""
    policy: Policy = "Shared"
    max_slowdown_percent: int = 100
    footprint_bytes: int | None = None
    """Memory of each device that one worker uses when it is alone; None: not declared."""
    minimum_bytes: int | None = None
    """Memory of each device to which a worker can be held; None: its footprint."""
    profile: JobProfile | None = None
    """Measured, or a hint (0 iterations); None: the job joins one other as a probe."""
    separated_from: frozenset[str] = frozenset()
    """Jobs with which it was measured to be slower than in turn."""
    current_group: str | None = None
    """Name of the group that it is a member of now."""
    overdue: bool = False
    """It has waited so long that slots which become free are kept for it until they are enough."""
    service_seconds: float = field(default=0.0, compare=False)
    """Where the shortest jobs go first, the time that it still needs alone, of all its slots; else
    0. It shrinks all the time, so it does not count when jobs are compared."""
    barred: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By node, why its workers may not begin there, in words; one that is there stays. What a
    group gains does not depend on it, so it does not count when jobs are compared."""
    unschedulable: Mapping[str, str] = field(default_factory=dict, compare=False)
    """By node, why its workers did not get to run there although the plan had given them a slot.
    For as long as a node is listed the job goes elsewhere if it can."""


def queue_place(job: Job) -> tuple[int, float, int, str]:
    """Order jobs as the queue does: by priority, then the shortest first, then by submission.

    Who has waited too long is no longer overtaken by shorter ones.
    """
    return -job.priority, 0.0 if job.overdue else job.service_seconds, job.submitted, job.name


@dataclass(frozen=True, kw_only=True)
class Slot:
    """What one worker uses on one node."""

    name: str
    node: str
    device_kind: str = "cpu"
    gpus: int = 0
    """0: a CPU slot. A group begins where they are as many as its first member needs."""
    memory_bytes: int | None = None
    """Memory of each device; None: not limited."""
    closed: str | None = None
    """Why nobody may come here who is not here yet, in words; None: it is open."""


@dataclass(frozen=True, kw_only=True)
class CurrentGroup:
    """A group that exists now; its members are the jobs that name it."""

    name: str
    slots: tuple[str, ...]
    correction: float = 1.0
    """Measured over predicted cycle so far, see performance.correction."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """Everything that a plan may rest on."""

    jobs: tuple[Job, ...]
    slots: tuple[Slot, ...]
    groups: tuple[CurrentGroup, ...] = ()
    network: Network = "HalfDuplex"
    servers_share_core: bool = False
    """Updates of all members' servers run on one core of the node, one after the other."""
    room: tuple[tuple[Slot, int], ...] = ()
    """A slot of each kind and node, and how many of it there were if all were free; empty:
    `slots` has all. For the words about a job that can never run."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What the model expects of a group.

    A cycle is over when every member has run its rounds.
    """

    cycle_seconds: float
    bound_seconds: float
    """No schedule of these rounds is shorter: the largest load, or the longest member."""
    bound: Bound
    """What makes that bound."""
    serial_seconds: float
    """The same rounds, one job after the other."""
    compute_utilisation: float
    network_utilisation: float
    """Share of the cycle in which the link (its busier direction) is used."""
    iteration_seconds: Mapping[str, float]
    """Seconds per iteration of each job while sharing."""
    slowdown_percent: Mapping[str, float]
    """100 x (seconds per iteration shared / alone - 1) of each job."""

    @property
    def speedup(self) -> float:
        """Total speed of the members, each measured against its own speed alone."""
        return sum(100 / (100 + slowdown) for slowdown in self.slowdown_percent.values())


@dataclass(frozen=True, kw_only=True)
class Member:
    """A job's place in a group."""

    job: str
    order: int
    rounds: int
    slots: tuple[str, ...]
    """Slot of each worker, by index."""
    memory_bytes: int | None
    """Memory of each device that a worker may hold while others hold theirs; None: not
    limited."""
    reason: str


@dataclass(frozen=True, kw_only=True)
class Group:
    """Jobs that share slots."""

    name: str
    slots: tuple[str, ...]
    members: tuple[Member, ...]
    """In cyclic order."""
    prediction: Prediction | None
    """None while a member has neither profile nor hint."""


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """A job that gets no slot in this plan."""

    job: str
    reason: str
    never_fits: bool = False
    """The slots could not hold it even if it had all of them."""
    preempted_by: str | None = None
    """The job of higher priority that takes its place in this plan."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Where every job of a snapshot goes."""

    groups: tuple[Group, ...] = ()
    waiting: tuple[Waiting, ...] = ()
