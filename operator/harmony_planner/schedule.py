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
from dataclasses import dataclass
from typing import Final

from harmony_planner.snapshot import Network

WARM_UP_ITERATIONS: Final = 6
MEASURED_ITERATIONS: Final = 24
_LARGEST_EVENT_COUNT: Final = 4000
"""Ends a run of members whose lengths differ so much that the longest hardly iterates."""
_RESOLUTION_SECONDS: Final = 1e-9
_STATE_DIGITS: Final = 8
"""Of the seconds that are left: what differs by less is the same state."""


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


_PULL, _COMP, _PUSH, _SYNC = range(4)
"""The stages of an iteration, in their sequence."""


class _Worker:
    __slots__ = ("member", "remaining", "rounds", "running", "seconds", "slot", "stage")

    def __init__(self, index: int, slot: int, member: Iteration) -> None:
        self.member = index
        self.rounds = member.rounds
        self.slot = slot
        self.seconds = (
            member.pull_seconds,
            member.compute_seconds,
            member.push_seconds,
            member.update_seconds,
        )
        """By stage; the update of a job is run by its first worker."""
        self.stage = _PULL
        self.running = False
        self.remaining = member.pull_seconds


class _Permit:
    """One resource that a single worker uses at a time, given out in cyclic order."""

    __slots__ = ("holder", "last", "ready", "taken", "turns")

    def __init__(self, turns: Sequence[int]) -> None:
        self.turns = turns
        """Turns of each member in a cycle."""
        self.taken = [0] * len(turns)
        self.last = -1
        self.holder: _Worker | None = None
        """Who uses it, until its phase ends."""
        self.ready: list[_Worker] = []

    def grant(self, running: list[_Worker]) -> None:
        """Choose a holder where there is none."""
        if self.holder is None and self.ready:
            self.holder = self.choose(self.ready)
            self.start(self.holder, running)

    def start(self, worker: _Worker, running: list[_Worker]) -> None:
        worker.running = True
        running.append(worker)

    def choose(self, ready: Sequence[_Worker]) -> _Worker:
        """Return the worker that is next, no longer ready, and count its turn."""
        first = ready[0] if len(ready) == 1 else min(ready, key=self.place)
        self.ready.remove(first)
        member = first.member
        if self.taken[member] >= self.turns[member]:
            self.taken = [0] * len(self.turns)
        self.taken[member] += 1
        self.last = member
        return first

    def place(self, worker: _Worker) -> tuple[bool, int, int]:
        behind_last = (worker.member - self.last - 1) % len(self.turns)
        return self.taken[worker.member] >= self.turns[worker.member], behind_last, worker.slot

    def state(self) -> tuple[object, ...]:
        """Return what its next choices depend on, besides who is ready."""
        return self.last, id(self.holder), *self.taken


class _Link(_Permit):
    """The link, or one direction of it: with a secondary permit beside the primary's."""

    __slots__ = ("most_rounds", "secondary")

    def __init__(self, turns: Sequence[int], most_rounds: int) -> None:
        super().__init__(turns)
        self.most_rounds = most_rounds
        self.secondary: _Worker | None = None
        """Who is the primary next; one that was overtaken has moved a part already."""

    def grant(self, running: list[_Worker]) -> None:
        """Choose a primary, then a secondary, and let the members with most rounds overtake.

        While the primary has fewer, the secondary's place is kept for those. They overtake as
        long as they have turns left in this cycle, so that the overtaken one goes on in the end.
        """
        primary = self.holder
        if primary is None:
            primary, self.secondary = self.secondary, None
            if primary is None:
                if not self.ready:
                    return
                primary = self.choose(self.ready)
            self.holder = primary
            self.start(primary, running)
        if self.secondary is not None or not self.ready:
            return
        if self.most_rounds == primary.rounds:
            self.secondary = self.choose(self.ready)
            return
        faster = [
            worker
            for worker in self.ready
            if worker.rounds == self.most_rounds
            and self.taken[worker.member] < self.turns[worker.member]
        ]
        if faster:
            self.holder, self.secondary = self.choose(faster), primary
            primary.running = False
            running.remove(primary)
            self.start(self.holder, running)

    def state(self) -> tuple[object, ...]:
        return *super().state(), id(self.secondary)


class _Run:
    """Members in their order on one node, from the start of all at once."""

    def __init__(
        self, members: Sequence[Iteration], network: Network, servers_share_core: bool
    ) -> None:
        self._half_duplex = network == "HalfDuplex"
        self._updates_share = self._half_duplex or servers_share_core
        self._jobs = [
            [_Worker(index, slot, member) for slot in range(member.workers)]
            for index, member in enumerate(members)
        ]
        self._workers = [worker for job in self._jobs for worker in job]
        self._running: list[_Worker] = []
        rounds = [member.rounds for member in members]
        self._compute = [_Permit(rounds) for _ in range(max(m.workers for m in members))]
        turns = [member.rounds * member.workers for member in members]
        if self._half_duplex:
            link = _Link([2 * count for count in turns], max(rounds))
            self._pull = self._push = link
            self._permits: list[_Permit] = [*self._compute, link]
        else:
            self._pull, self._push = _Link(turns, max(rounds)), _Link(turns, max(rounds))
            self._permits = [*self._compute, self._pull, self._push]
        self._pull.ready.extend(self._workers)
        self._changed: set[_Permit] = {self._pull}
        """Permits that somebody left or asked for since they were last given out."""
        self._updating = 0
        """Jobs whose servers update."""
        self._synchronising = [0] * len(members)
        """Workers of each job that have ended PUSH."""
        self.now = 0.0
        self.ends: list[list[float]] = [[] for _ in members]
        """When each member's iterations ended."""

    def step(self) -> None:
        """Go on to the next moment at which a phase ends."""
        running = self._running
        for permit in self._changed:
            permit.grant(running)
        self._changed.clear()
        speeds = self._speeds() if self._updates_share and self._updating else None
        if speeds is None:
            elapsed = min([worker.remaining for worker in running])
            for worker in running:
                worker.remaining -= elapsed
        else:
            elapsed = min([worker.remaining / speeds[worker.stage] for worker in running])
            for worker in running:
                worker.remaining -= elapsed * speeds[worker.stage]
        self.now += elapsed
        ended = [worker for worker in running if worker.remaining <= _RESOLUTION_SECONDS]
        for worker in sorted(ended, key=_in_order) if len(ended) > 1 else ended:
            running.remove(worker)
            self._finish(worker)

    def state(self) -> tuple[object, ...]:
        """Return what all that follows depends on; equal states go on alike."""
        phases = [
            (worker.stage, worker.running, round(worker.remaining, _STATE_DIGITS))
            for worker in self._workers
        ]
        return (*phases, *[permit.state() for permit in self._permits])

    def _speeds(self) -> tuple[float, float, float, float]:
        """Return the speed of each stage: updates share with each other and with transfers."""
        if not self._half_duplex:
            return 1.0, 1.0, 1.0, 1 / self._updating
        transfers = sum([worker.stage in (_PULL, _PUSH) for worker in self._running])
        share = 1 / (self._updating + transfers)
        return share, 1.0, share, share

    def _finish(self, worker: _Worker) -> None:
        worker.running = False
        stage = worker.stage
        if stage == _SYNC:
            self._updating -= 1
            self.ends[worker.member].append(self.now)
            self._synchronising[worker.member] = 0
            for peer in self._jobs[worker.member]:
                self._enter(peer, _PULL, self._pull)
        elif stage == _PULL:
            self._leave(self._pull)
            self._enter(worker, _COMP, self._compute[worker.slot])
        elif stage == _COMP:
            self._leave(self._compute[worker.slot])
            self._enter(worker, _PUSH, self._push)
        else:
            self._leave(self._push)
            worker.stage = _SYNC
            worker.remaining = worker.seconds[_SYNC]
            self._synchronising[worker.member] += 1
            first, *others = self._jobs[worker.member]
            if self._synchronising[worker.member] > len(others):
                self._updating += 1
                first.running = True
                self._running.append(first)

    def _enter(self, worker: _Worker, stage: int, permit: _Permit) -> None:
        worker.stage = stage
        worker.remaining = worker.seconds[stage]
        permit.ready.append(worker)
        self._changed.add(permit)

    def _leave(self, permit: _Permit) -> None:
        permit.holder = None
        self._changed.add(permit)


def _in_order(worker: _Worker) -> tuple[int, int]:
    return worker.member, worker.slot


def iteration_seconds(
    members: Sequence[Iteration], network: Network, *, servers_share_core: bool = False
) -> list[float]:
    """Return the seconds per iteration of each member, when they run together in this order.

    Every iteration must take some time. A member that ends no second iteration before the
    others ran thousands of events gets the time that has passed until then.
    """
    run = _Run(members, network, servers_share_core)
    started = 0.0
    first = run.ends[0]
    seen: dict[tuple[object, ...], tuple[float, list[int]]] = {}
    for _ in range(_LARGEST_EVENT_COUNT):
        fewest = min(map(len, run.ends))
        if fewest <= WARM_UP_ITERATIONS:
            started = run.now
        elif fewest > WARM_UP_ITERATIONS + MEASURED_ITERATIONS:
            break
        before = len(first)
        run.step()
        if len(first) > before:
            then, counts = seen.setdefault(run.state(), (run.now, [*map(len, run.ends)]))
            made = [len(ends) - count for ends, count in zip(run.ends, counts, strict=True)]
            if all(made):
                return [(run.now - then) / count for count in made]
    return [_typical_seconds(ends, started, run.now) for ends in run.ends]


def _typical_seconds(ends: Sequence[float], started: float, now: float) -> float:
    """Return the time from one end to the next, after the warm-up where there are enough."""
    measured = [end for end in ends if end >= started]
    if len(measured) < 2:
        measured = list(ends)
    if len(measured) < 2:
        return now
    return (measured[-1] - measured[0]) / (len(measured) - 1)
