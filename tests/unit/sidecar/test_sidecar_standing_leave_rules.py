"""A worker with a standing leave beside a neighbour that comes and goes, in any order of events.

Session, arbiter, election and table are the real ones; the worker is a model of a client that does
what docs/worker-protocol.md asks of one. Messages take their time in both directions, but within
what the recall allows for. Whatever happens, the two never compute at once.
"""

import tempfile
from pathlib import Path
from typing import ClassVar
from unittest import mock

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from harmony_api.net_board import NetBoard
from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.worker_protocol import (
    Epoch,
    FrameReader,
    GrantFlags,
    HelloFlags,
    MessageType,
    Phase,
    Turn,
)
from harmony_sidecar.accounts import TurnAccounts
from harmony_sidecar.arbiter import Arbiter
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import LiveTurn
from harmony_sidecar.election import ElectionFolder
from harmony_sidecar.ports import LocalPort
from harmony_sidecar.session import WorkerSession
from harmony_sidecar.standing_leave import RECALL_NANOSECONDS

NEIGHBOUR = Member("b/0")
DELAY_NANOSECONDS = RECALL_NANOSECONDS // 2
"""What the worker says is heard by then, at the latest."""
PHASES = st.sampled_from([Phase.COMP, Phase.COMP, Phase.PUSH])


class Clock:
    """In place of the module `time`."""

    now: ClassVar[int] = 0

    @classmethod
    def monotonic_ns(cls) -> int:
        return cls.now


def plan(jobs: str, generation: int) -> NodePlan:
    members = tuple(
        PlannedMember(job=job, worker=0, order=order, compute_seconds=0.01, network_seconds=0.01)
        for order, job in enumerate(jobs)
    )
    return NodePlan(group="g", generation=generation, devices=("d",), members=members)


class Connection:
    """The worker's socket, as its session sees it: what was sent waits to be read."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self.unread: list[tuple[int, tuple[int | float, ...]]] = []

    def send(self, frame: bytes, flags: int = 0) -> int:
        self.unread += self._reader.feed(frame)
        return len(frame)


class Neighbour:
    """A worker of another sidecar that always waits for its turns."""

    def __init__(self) -> None:
        self.holds: LiveTurn | None = None

    def granted(self, request: int, live: LiveTurn, epoch: int) -> None:
        self.holds = live

    def extended(self, turn: Turn, deadline_ns: int) -> None:
        pass

    def revoked(self, turn: Turn) -> None:
        self.holds = None

    def recalled(self) -> None:
        raise AssertionError("only the arbiter's own worker has a leave")

    def dropped(self) -> None:
        self.holds = None


class TwoNeverComputeAtOnce(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        Clock.now = 10**12
        self.patches = [
            mock.patch("harmony_sidecar.arbiter.time", Clock),
            mock.patch("harmony_sidecar.session.time", Clock),
            mock.patch("harmony_sidecar.session.socket.send_fds", lambda c, d, *_: c.send(d[0])),
        ]
        for patch in self.patches:
            patch.start()
        self.folder = tempfile.TemporaryDirectory(dir="/dev/shm")
        self.election = ElectionFolder(Path(self.folder.name))
        self.board = NetBoard(self.election.board_descriptor)
        self.arbiter = self.new_arbiter()
        page = self.election.page
        self.session = WorkerSession(
            "a", 0, TurnAccounts(), self.election.board_descriptor, lambda: page.epoch
        )
        self.generation = 1
        self.session.set_plan(plan("a", 1))
        self.connection = Connection()
        self.session.worker_connected(self.connection, HelloFlags.CHUNKED, 0, Turn(0))
        self.open_port()
        # The worker.
        self.unheard: list[tuple[MessageType, tuple[int, ...]]] = []
        self.unheard_since = 0
        self.leave_epoch = Epoch(0)
        self.doing = "nothing"
        self.phase = Phase.COMP
        self.turn = self.request = self.began_ns = 0
        # The other one.
        self.neighbour: Neighbour | None = None
        self.requests = 0

    def teardown(self) -> None:
        for patch in self.patches:
            patch.stop()
        self.board.close()
        self.folder.cleanup()

    def new_arbiter(self) -> Arbiter:
        self.election.page.resign()
        seat = self.election.take_over(Clock.now)
        assert seat is not None
        seat.listener.close()
        return Arbiter(self.election, seat)

    def open_port(self) -> None:
        assert self.session.plan is not None
        self.session.port_opened(LocalPort(self.arbiter, self.session, self.session.plan))

    # ---- the worker

    def read(self, request: int | None = None) -> tuple[int, ...] | None:
        found = None
        frames, self.connection.unread = self.connection.unread, []
        for kind, fields in frames:
            if kind == MessageType.GRANT and fields[0] == request:
                found = tuple(map(int, fields))
                self.leave_epoch = Epoch(found[2] if found[3] & GrantFlags.STANDING else 0)
            elif kind == MessageType.GRANT and fields[1]:
                self.say(MessageType.RELEASE, int(fields[1]), 0)
            elif kind == MessageType.RECALL:
                self.leave_epoch = Epoch(0)
        return found

    def say(self, kind: MessageType, *fields: int) -> None:
        self.unheard.append((kind, fields))
        if not self.unheard_since:
            self.unheard_since = Clock.now

    def hear(self, count: int) -> None:
        """The session takes in what the worker said first."""
        for kind, fields in self.unheard[:count]:
            self.session.worker_said(kind, fields)
        del self.unheard[:count]
        if not self.unheard:
            self.unheard_since = 0

    @precondition(lambda self: self.doing == "nothing")
    @rule(phase=PHASES)
    def begin(self, phase: Phase) -> None:
        self.phase = phase
        if self.leave_epoch:
            self.read()
        if self.leave_epoch and self.leave_epoch == self.board.epoch:
            self.say(MessageType.BEGIN, phase, 0)
            self.doing, self.turn, self.began_ns = "a phase", 0, Clock.now
        else:
            self.request += 1
            self.say(MessageType.ACQUIRE, self.request, phase, 0)
            self.doing = "waiting"

    @precondition(lambda self: self.doing == "nothing")
    @rule(phase=PHASES)
    def run_a_phase(self, phase: Phase) -> None:
        self.begin(phase)
        self.hear(len(self.unheard))
        if self.doing == "waiting":
            self.look_for_the_grant()
        if self.doing == "a phase":
            self.finish()

    @precondition(lambda self: self.doing == "waiting")
    @rule()
    def look_for_the_grant(self) -> None:
        if (grant := self.read(self.request)) is not None:
            self.doing, self.turn, self.began_ns = "a phase", grant[1], Clock.now

    @precondition(lambda self: self.doing == "a phase")
    @rule()
    def finish(self) -> None:
        self.say(MessageType.RELEASE, self.turn, 1)
        self.doing = "nothing"

    # ---- between them

    @rule(count=st.integers(1, 3))
    def hear_some(self, count: int) -> None:
        self.hear(count)

    @rule(milliseconds=st.sampled_from([1, 200, 700]))
    def pass_time(self, milliseconds: int) -> None:
        until = Clock.now + milliseconds * 10**6
        while Clock.now < until:
            Clock.now = min(until, Clock.now + 50 * 10**6)
            if self.unheard_since and Clock.now - self.unheard_since >= DELAY_NANOSECONDS:
                self.hear(len(self.unheard))
            if self.doing == "waiting":
                self.look_for_the_grant()
            if self.doing == "a phase" and Clock.now - self.began_ns > 10**9:
                self.finish()  # long before its lease ends
                self.hear(len(self.unheard))
            self.tick()

    def tick(self) -> None:
        self.arbiter.expire(Clock.now)
        self.session.look_after_request(Clock.now)
        self.election.page.beat(Clock.now)
        if self.session.port is None:
            self.open_port()

    @rule(jobs=st.sampled_from(["a", "a", "ab"]))
    def replan(self, jobs: str) -> None:
        self.generation += 1
        self.session.set_plan(plan(jobs, self.generation))

    @rule(phase=PHASES)
    def the_neighbours_sidecar_takes_over(self, phase: Phase) -> None:
        """The worker's own finds out a while later, and the worker too."""
        self.hear(len(self.unheard))
        self.arbiter = self.new_arbiter()
        self.join(phase)

    @precondition(lambda self: self.session.port is not None)
    @rule()
    def find_out(self) -> None:
        self.session.drop_port()
        self.open_port()

    # ---- the neighbour

    @precondition(lambda self: self.neighbour is None)
    @rule(phase=PHASES)
    def join(self, phase: Phase) -> None:
        self.neighbour = Neighbour()
        self.arbiter.join(
            NEIGHBOUR, plan("ab", self.generation), self.neighbour, chunked=True, held=Turn(0)
        )
        self.ask(phase)

    @precondition(lambda self: self.neighbour is not None)
    @rule()
    def leave(self) -> None:
        neighbour, self.neighbour = self.neighbour, None
        self.arbiter.leave(NEIGHBOUR, neighbour)

    @precondition(lambda self: self.neighbour and self.neighbour.holds is None)
    @rule(phase=PHASES)
    def ask(self, phase: Phase) -> None:
        self.requests += 1
        self.arbiter.acquire(NEIGHBOUR, self.neighbour, self.requests, phase)

    @precondition(lambda self: self.neighbour and self.neighbour.holds)
    @rule()
    def release(self) -> None:
        turn, self.neighbour.holds = self.neighbour.holds.turn, None
        self.arbiter.release(NEIGHBOUR, self.neighbour, turn)

    @invariant()
    def at_most_one_computes(self) -> None:
        holds = self.neighbour.holds if self.neighbour else None
        if self.doing == "a phase" and self.phase is Phase.COMP and holds is not None:
            assert holds.phase is not Phase.COMP


TestStandingLeave = TwoNeverComputeAtOnce.TestCase
TestStandingLeave.settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
