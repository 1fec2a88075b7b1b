"""What one worker asks of its sidecar, whichever connection it asks through.

The session stands between two parties that may each vanish: the worker and the arbiter. It
knows what the worker waits for and holds, passes requests on to the arbiter through a port,
and answers by itself when nobody else does (fail open). All methods are called with the
process's lock held.
"""

import contextlib
import logging
import math
import socket
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Final, Literal

from harmony_api.node_plan import NodePlan
from harmony_api.sidecar_state import PhaseName, SidecarState
from harmony_api.worker_protocol import (
    VERSION,
    WAIT_INTERVAL_SECONDS,
    Epoch,
    GrantFlags,
    HelloFlags,
    MessageType,
    Phase,
    ProtocolError,
    Turn,
    encode,
)
from harmony_sidecar.accounts import TurnAccounts
from harmony_sidecar.arbiter_port import ArbiterPort
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.fail_open import nobody_answers
from harmony_sidecar.held_turn import NEVER_NANOSECONDS, HeldTurn, PermitRequest
from harmony_sidecar.link_messages import AT_ONCE
from harmony_sidecar.turn_ring import PHASE_NAMES, EndedBy, PastTurn
from harmony_sidecar.worker_progress import WorkerProgress

log = logging.getLogger(__name__)

# Plain integers: operations on flag enums are slow, and this is the permit path.
_SECONDARY: Final = int(GrantFlags.SECONDARY)
_UNCOORDINATED: Final = int(GrantFlags.UNCOORDINATED)
_STOP: Final = int(GrantFlags.STOP)
_STANDING: Final = int(GrantFlags.STANDING)
_WAIT_NANOSECONDS: Final = int(0.8 * WAIT_INTERVAL_SECONDS * 1e9)
_PERMIT_PHASES: Final = {int(p): p for p in (Phase.PULL, Phase.COMP, Phase.PUSH)}


class WorkerSession:
    """The state of one worker, across reconnects of either side."""

    def __init__(
        self,
        job: str,
        worker: int,
        accounts: TurnAccounts,
        board_descriptor: int,
        current_epoch: Callable[[], Epoch],
    ) -> None:
        self._job, self._worker = job, worker
        self.member = Member(f"{job}/{worker}")
        self.port: ArbiterPort | None = None
        self._port_answers = False
        self._port_lost_ns = self._started_ns = time.monotonic_ns()
        self.connection: socket.socket | None = None
        self.chunked = False
        self.plan: NodePlan | None = None
        self._accounts = accounts
        self._board_descriptor = board_descriptor
        self._current_epoch = current_epoch
        self._asked = 0
        self._pending: PermitRequest | None = None
        self._held: HeldTurn | None = None
        self._overdue: HeldTurn | None = None
        """A turn whose lease has ended while the worker is still busy with it."""
        self._standing = False
        """The worker was told that it need not wait for its turns."""
        self._in_sync = False
        """PUSH is over; the next iteration has not begun."""
        self._progress = WorkerProgress()
        self._handlers: dict[int, Callable[..., None]] = {
            MessageType.ACQUIRE: self._acquire,
            MessageType.RELEASE: self._release,
            MessageType.SYNCED: self._synced,
            MessageType.REPORT: self._report,
            MessageType.SHOULD_STOP: self._should_stop,
            MessageType.END: self._end,
            MessageType.BEGIN: self._begin,
            MessageType.PAUSED: self._paused,
        }

    # ---- the worker's side

    def worker_connected(
        self, connection: socket.socket, flags: int, phase: int, turn: Turn
    ) -> None:
        """A worker said HELLO; it replaces the one before."""
        now = time.monotonic_ns()
        if self._held is not None and self._held.turn != turn:
            self._end_early(self._held, now, "Disconnect")
            self._held = None
        self._drop_request(now, "Disconnect")
        if turn and phase in _PERMIT_PHASES and self._held is None:
            iteration = self._progress.iteration
            self._held = HeldTurn(
                turn, _PERMIT_PHASES[phase], iteration, now, now, NEVER_NANOSECONDS, measured=False
            )
        self.connection = connection
        self._standing = False
        self._port_lost_ns = now
        self.chunked = bool(flags & HelloFlags.CHUNKED)
        self._progress.connected, self._progress.ended = True, False
        self._accounts.worker_started()
        welcome = encode(MessageType.WELCOME, VERSION, 0)
        socket.send_fds(connection, [welcome], [self._board_descriptor], socket.MSG_NOSIGNAL)

    def worker_disconnected(self, connection: socket.socket) -> None:
        """The worker's socket closed: what it held is free at once."""
        if self.connection is not connection:
            return
        now = time.monotonic_ns()
        self.connection = None
        self._leave()
        self._drop_request(now, "Disconnect")
        if self._held is not None:
            self._end_early(self._held, now, "Disconnect")
            self._held = None
        self._progress.connected = False

    def worker_said(self, kind: int, fields: tuple[int | float, ...]) -> None:
        """Act on one frame; raises ProtocolError when it makes no sense."""
        handler = self._handlers.get(kind)
        if handler is not None:
            handler(*fields)

    def _begin(self, code: int, iteration: int) -> None:
        if not self._standing:
            # Most often a RECALL is under way; a worker that missed it shall hear of it again.
            self._send(encode(MessageType.RECALL))
        self._acquire(0, code, iteration, begun=True)

    def _acquire(self, number: int, code: int, iteration: int, *, begun: bool = False) -> None:
        now = time.monotonic_ns()
        phase = _PERMIT_PHASES.get(code)
        if phase is None:
            raise ProtocolError(f"phase {code} needs no permit")
        unfinished, self._held = self._held, None
        self._overdue = None
        self._in_sync = False
        self._drop_request(now)
        self._asked = (self._asked + 1) & 0xFFFFFFFF
        self._pending = PermitRequest(number, phase, iteration, now, now, self._asked, begun)
        if self.port is not None:
            if self.plan is not None and self.plan.permits != "None":
                self.port.acquire(self._asked, phase)
            elif unfinished is not None and unfinished.turn:
                self.port.release(unfinished.turn)
        if self._pending is not None:
            self._pending.late = begun
            self.look_after_request(now)
        if unfinished is not None and unfinished.turn:
            self._end_early(unfinished, now, "Release")
        self._progress.iteration = iteration

    def _release(self, turn: Turn, bytes_moved: int) -> None:
        now = time.monotonic_ns()
        held = self._held
        if held is not None and held.is_named(turn):
            self._held = None
            if held.turn and self.port is not None:
                self.port.release(held.turn)
            self._in_sync = held.phase is Phase.PUSH
            past = held.until(now, bytes_moved)
            self._accounts.note(held.within_lease(past), past if held.measured else None)
        elif self._overdue is not None and self._overdue.is_named(turn):
            overdue, self._overdue = self._overdue, None
            if overdue.measured:
                self._accounts.note(None, overdue.until(now, bytes_moved))
        elif turn == 0 and self._pending is not None:
            self._in_sync = self._pending.begun and self._pending.phase is Phase.PUSH
            self._drop_request(now, bytes_moved=bytes_moved)
            if self.port is not None:
                self.port.release(turn)

    def _paused(self, nanoseconds: int) -> None:
        held = self._held or self._overdue
        if held is not None:
            held.paused_ns = nanoseconds

    def _synced(self, iteration: int, waited_ns: int, update_ns: int) -> None:
        now = time.monotonic_ns()
        start = max(0, now - waited_ns)
        past = PastTurn(Phase.SYNC, iteration, 0, 0, start, start, now, update_ns=update_ns)
        self._accounts.note(past, past)
        self._in_sync = False

    def _report(self, iteration: int, total: int, loss: float) -> None:
        self._progress.iteration, self._progress.total = iteration, total
        self._progress.loss = loss if math.isfinite(loss) else None

    def _should_stop(self) -> None:
        self._send(encode(MessageType.STOP, self.plan is not None and self.plan.stop))

    def _end(self) -> None:
        self._leave()
        self._progress.ended = True

    def _leave(self) -> None:
        if self.port is not None:
            self.port.leave()
            self.drop_port()

    # ---- the arbiter's side

    @property
    def wants_port(self) -> bool:
        """Whether there is a worker to take part for, and a plan to take part in."""
        return self.connection is not None and self.plan is not None and not self._progress.ended

    @property
    def held(self) -> Turn:
        """The turn that the worker holds; 0: none."""
        return self._held.turn if self._held is not None else Turn(0)

    def port_opened(self, port: ArbiterPort) -> None:
        """There is a way to the arbiter; tell it what the worker waits for."""
        self.port = port
        if self._pending is not None:
            port.acquire(self._pending.asked, self._pending.phase)

    def port_answers(self) -> None:
        """The arbiter knows the worker now."""
        self._port_answers = True

    def drop_port(self) -> None:
        """There is no arbiter for the moment, or another one."""
        if self._port_answers:
            self._port_answers = False
            self._port_lost_ns = time.monotonic_ns()
        self.recalled()
        port, self.port = self.port, None
        if port is not None:
            port.close()

    def set_plan(self, plan: NodePlan) -> None:
        """A new plan is in force."""
        self.plan = plan
        if self.port is not None:
            self.port.set_plan(plan)

    def granted(self, asked: int, turn: Turn, epoch: int, flags: int, deadline_ns: int) -> None:
        """Pass a grant on, unless it is outdated."""
        if epoch < self._current_epoch():
            return
        request = self._pending
        if request is None or request.asked != asked:
            if self.port is not None:
                self.port.release(turn)
            return
        start_ns = self._send_grant(request, turn, epoch, flags)
        if request.late:
            self._note_without_permit(request.without_permit(start_ns))
        self._held = HeldTurn(
            turn,
            request.phase,
            request.iteration,
            start_ns if request.late else request.since_ns,
            start_ns,
            deadline_ns,
            epoch,
            secondary=flags & _SECONDARY != 0,
            measured=not request.late,
            begun=request.begun,
        )

    def recalled(self) -> None:
        """The worker must wait for its turns again."""
        if self._standing:
            self._standing = False
            self._send(encode(MessageType.RECALL))

    def lease_extended(self, turn: Turn, deadline_ns: int) -> None:
        """The lease of a turn ends at another time."""
        if self._held is not None and self._held.turn == turn:
            self._held.deadline_ns = deadline_ns

    def revoked(self, turn: Turn) -> None:
        """The lease of a turn has ended."""
        held = self._held
        if held is not None and held.turn == turn:
            self._send(encode(MessageType.REVOKED, turn))
            self._accounts.metrics.revoked.inc()
            self._progress.revoked_turns += 1
            self._end_early(held, time.monotonic_ns(), "Lease")
            self._held, self._overdue = None, held

    def look_after_request(self, now_ns: int) -> None:
        """Answer a pending request where nobody else will; else tell the worker that it waits."""
        request = self._pending
        if request is None:
            return
        measured_only = self.plan is not None and self.plan.permits == "None"
        if measured_only or nobody_answers(
            now_ns,
            started_ns=self._started_ns,
            lost_ns=None if self._port_answers else self._port_lost_ns,
            has_plan=self.plan is not None,
        ):
            if not measured_only:
                self._count_uncoordinated()
            start_ns = self._send_grant(request, Turn(0), 0, _UNCOORDINATED)
            if request.begun:
                start_ns = request.since_ns
            self._held = HeldTurn(
                Turn(0),
                request.phase,
                request.iteration,
                request.since_ns,
                start_ns,
                NEVER_NANOSECONDS,
                measured=measured_only,
                begun=request.begun,
            )
        elif now_ns - request.heard_ns > _WAIT_NANOSECONDS:
            request.heard_ns = now_ns
            self._send(encode(MessageType.WAIT))

    # ---- what is known

    def state(self) -> SidecarState:
        """Return a copy of the state, for readers outside the lock."""
        waiting = self._pending is not None and not self._pending.begun
        return SidecarState(
            job=self._job,
            worker=self._worker,
            doing=self._doing(),
            waiting_for=PHASE_NAMES[self._pending.phase] if self._pending and waiting else None,
            plan_generation=self.plan.generation if self.plan is not None else -1,
            **asdict(self._progress),
        )

    def _doing(self) -> Literal["Idle", "Waiting"] | PhaseName:
        if self._pending is not None:
            return PHASE_NAMES[self._pending.phase] if self._pending.begun else "Waiting"
        if self._held is not None:
            return PHASE_NAMES[self._held.phase]
        return "SYNC" if self._in_sync and self.connection is not None else "Idle"

    def _send_grant(self, request: PermitRequest, turn: Turn, epoch: int, flags: int) -> int:
        """Let the worker start; return when, in ns."""
        if self.plan is not None and self.plan.stop:
            flags |= _STOP
        start_ns = time.monotonic_ns()
        if not request.begun:
            self._standing = flags & _STANDING != 0
            self._send(encode(MessageType.GRANT, request.number, turn, epoch, flags))
        self._pending = None
        return start_ns

    def _drop_request(
        self, now_ns: int, ended_by: EndedBy = "Release", *, bytes_moved: int = 0
    ) -> None:
        """Forget what the worker waits for, or note the phase that it ran all the same."""
        request, self._pending = self._pending, None
        if request is not None and request.begun:
            self._note_without_permit(request.without_permit(now_ns, bytes_moved, ended_by))

    def _note_without_permit(self, past: PastTurn) -> None:
        self._count_uncoordinated()
        self._accounts.note(past, None)

    def _count_uncoordinated(self) -> None:
        self._accounts.metrics.uncoordinated.inc()
        self._progress.uncoordinated_turns += 1

    def _end_early(self, held: HeldTurn, end_ns: int, ended_by: EndedBy) -> None:
        self._accounts.note(held.within_lease(held.until(end_ns), ended_by), None)

    def _send(self, frame: bytes) -> None:
        if self.connection is None:
            return
        try:
            self.connection.send(frame, AT_ONCE)
        except OSError:
            # It reads no more, or is gone; its thread finds out and cleans up.
            with contextlib.suppress(OSError):
                self.connection.shutdown(socket.SHUT_RDWR)
