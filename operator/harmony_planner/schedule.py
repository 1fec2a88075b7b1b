"""What a cyclic schedule really achieves: a tiny deterministic run of the permits' rules.

The closed formula of the performance model is a bound that no schedule beats; the time above
it comes from COMP not being preempted, from the order in a cycle, and from members of unequal
length that miss each other. All three are reproduced here, because the phases of a training
job hardly vary: an event loop over a few cycles, with the arbiter's own rules, gives the
seconds per iteration of each member.

The rules that are followed: the phases of a member are in sequence, and its workers wait for
each other after PUSH; one COMP turn at a time on a slot; one transfer at a time on the link
(FullDuplex: in each direction); of the ready members, the first after the last holder that has
turns left in this cycle; on the link, a secondary that follows at once, and members with most
rounds that overtake a primary with fewer as long as they have turns left. The servers' update
needs no permit, but takes its part of what it runs on: of the link and its core (HalfDuplex),
or of the core that the servers share.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from harmony_planner.snapshot import Network

WARM_UP_ITERATIONS: Final = 6
MEASURED_ITERATIONS: Final = 24
_LARGEST_EVENT_COUNT: Final = 4000
"""Ends a run of members whose lengths differ so much that the longest hardly iterates."""
_RESOLUTION_SECONDS: Final = 1e-9


@dataclass(frozen=True)
class Iteration:
    """Seconds of the phases of one iteration, and how often it runs in a cycle."""

    compute_seconds: float
    pull_seconds: float
    push_seconds: float
    update_seconds: float = 0.0
    rounds: int = 1
    workers: int = 1
    """Workers on the node, each on a slot of its own from slot 0 up."""


class _Stage(IntEnum):
    PULL = 0
    COMP = 1
    PUSH = 2
    SYNC = 3


@dataclass(eq=False)
class _Worker:
    member: int
    rounds: int
    slot: int
    seconds: tuple[float, float, float, float]
    """By stage; the update of a job is run by its first worker."""
    stage: _Stage = _Stage.PULL
    running: bool = False
    remaining: float = 0.0

    def enter(self, stage: _Stage) -> None:
        self.running = False
        self.stage = stage
        self.remaining = self.seconds[stage]


@dataclass(eq=False)
class _Permit:
    """One resource that a single worker uses at a time, given out in cyclic order."""

    stages: tuple[_Stage, ...]
    turns: Sequence[int]
    """Turns of each member in a cycle."""
    workers: Sequence[_Worker]
    """Those that may ask for it."""
    holder: _Worker | None = None
    last: int = -1
    taken: dict[int, int] = field(default_factory=dict)

    def grant(self) -> None:
        """Choose a holder where there is none."""
        if self.is_free():
            self.holder = self.choose(self.ready())
            if self.holder is not None:
                self.holder.running = True

    def is_free(self) -> bool:
        holder = self.holder
        return holder is None or not (holder.running and holder.stage in self.stages)

    def ready(self) -> list[_Worker]:
        return [w for w in self.workers if w.stage in self.stages and not w.running]

    def choose(self, ready: Sequence[_Worker]) -> _Worker | None:
        """Return the worker that is next, and count its turn."""
        if not ready:
            return None
        first = min(ready, key=self.place)
        if self.spent(first.member):
            self.taken.clear()
        self.taken[first.member] = self.taken.get(first.member, 0) + 1
        self.last = first.member
        return first

    def place(self, worker: _Worker) -> tuple[bool, int, int]:
        behind_last = (worker.member - self.last - 1) % len(self.turns)
        return self.spent(worker.member), behind_last, worker.slot

    def spent(self, member: int) -> bool:
        return self.taken.get(member, 0) >= self.turns[member]


@dataclass(eq=False)
class _Link(_Permit):
    """The link, or one direction of it: with a secondary permit beside the primary's."""

    secondary: _Worker | None = None
    """Who is the primary next; one that was overtaken has moved a part already."""

    def grant(self) -> None:
        """Choose a primary, then a secondary, and let the members with most rounds overtake.

        While the primary has fewer, the secondary's place is kept for those. They overtake as
        long as they have turns left in this cycle, so that the overtaken one goes on in the end.
        """
        if self.is_free():
            self.holder, self.secondary = self.secondary or self.choose(self.ready()), None
            if self.holder is None:
                return
            self.holder.running = True
        primary = self.holder
        if self.secondary is not None or primary is None:
            return
        most_rounds = max(worker.rounds for worker in self.workers)
        if most_rounds == primary.rounds:
            self.secondary = self.choose(self.ready())
            return
        faster = [w for w in self.ready() if w.rounds == most_rounds and not self.spent(w.member)]
        if (overtaking := self.choose(faster)) is not None:
            self.holder, self.secondary = overtaking, primary
            primary.running, overtaking.running = False, True


class _Run:
    """Members in their order on one node, from the start of all at once."""

    def __init__(
        self, members: Sequence[Iteration], network: Network, servers_share_core: bool
    ) -> None:
        self._half_duplex = network == "HalfDuplex"
        self._updates_share = self._half_duplex or servers_share_core
        self._jobs = [_workers(index, member) for index, member in enumerate(members)]
        self._workers = [worker for job in self._jobs for worker in job]
        self._permits = _permits(members, self._workers, half_duplex=self._half_duplex)
        self.now = 0.0
        self.ends: list[list[float]] = [[] for _ in members]
        """When each member's iterations ended."""

    def step(self) -> None:
        """Go on to the next moment at which a phase ends."""
        for job in self._jobs:
            if all(worker.stage is _Stage.SYNC for worker in job):
                job[0].running = True
        for permit in self._permits:
            permit.grant()
        running = [worker for worker in self._workers if worker.running]
        speeds = self._speeds(running)
        elapsed = min(worker.remaining / speeds[worker.stage] for worker in running)
        self.now += elapsed
        for worker in running:
            worker.remaining -= elapsed * speeds[worker.stage]
            if worker.remaining <= _RESOLUTION_SECONDS:
                self._finish(worker)

    def _speeds(self, running: Sequence[_Worker]) -> tuple[float, float, float, float]:
        """Return the speed of each stage: updates share with each other and with transfers."""
        updates = sum(worker.stage is _Stage.SYNC for worker in running)
        if not updates or not self._updates_share:
            return 1.0, 1.0, 1.0, 1.0
        if not self._half_duplex:
            return 1.0, 1.0, 1.0, 1 / updates
        transfers = sum(worker.stage in (_Stage.PULL, _Stage.PUSH) for worker in running)
        share = 1 / (updates + transfers)
        return share, 1.0, share, share

    def _finish(self, worker: _Worker) -> None:
        if worker.stage is not _Stage.SYNC:
            worker.enter(_Stage(worker.stage + 1))
            return
        self.ends[worker.member].append(self.now)
        for peer in self._jobs[worker.member]:
            peer.enter(_Stage.PULL)


def _workers(index: int, member: Iteration) -> list[_Worker]:
    seconds = (
        member.pull_seconds,
        member.compute_seconds,
        member.push_seconds,
        member.update_seconds,
    )
    return [
        _Worker(index, member.rounds, slot, seconds, remaining=member.pull_seconds)
        for slot in range(member.workers)
    ]


def _permits(
    members: Sequence[Iteration], workers: Sequence[_Worker], *, half_duplex: bool
) -> list[_Permit]:
    rounds = [member.rounds for member in members]
    compute = [
        _Permit((_Stage.COMP,), rounds, [worker for worker in workers if worker.slot == slot])
        for slot in range(max(member.workers for member in members))
    ]
    transfers = [member.rounds * member.workers for member in members]
    if half_duplex:
        both = [2 * turns for turns in transfers]
        return [*compute, _Link((_Stage.PULL, _Stage.PUSH), both, workers)]
    links = [_Link((stage,), transfers, workers) for stage in (_Stage.PULL, _Stage.PUSH)]
    return [*compute, *links]


def iteration_seconds(
    members: Sequence[Iteration], network: Network, *, servers_share_core: bool = False
) -> list[float]:
    """Return the seconds per iteration of each member, when they run together in this order.

    Every iteration must take some time. A member that ends no second iteration before the
    others ran thousands of events gets the time that has passed until then.
    """
    run = _Run(members, network, servers_share_core)
    started = 0.0
    for _ in range(_LARGEST_EVENT_COUNT):
        fewest = min(map(len, run.ends))
        if fewest <= WARM_UP_ITERATIONS:
            started = run.now
        elif fewest > WARM_UP_ITERATIONS + MEASURED_ITERATIONS:
            break
        run.step()
    return [_typical_seconds(ends, started, run.now) for ends in run.ends]


def _typical_seconds(ends: Sequence[float], started: float, now: float) -> float:
    """Return the time from one end to the next, after the warm-up where there are enough."""
    measured = [end for end in ends if end >= started]
    if len(measured) < 2:
        measured = list(ends)
    if len(measured) < 2:
        return now
    return (measured[-1] - measured[0]) / (len(measured) - 1)
