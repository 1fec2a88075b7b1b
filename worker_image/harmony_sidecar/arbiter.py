"""The arbiter: the permit table of a node, and the links of the sidecars that ask it.

Whoever holds the process's lock may call it; it never blocks, and sends whatever follows
from a call before it returns. A turn is recorded in the holders page before its holder hears
of it, so that a successor never gives the same permit to somebody else.

A sidecar may die while its worker computes on. Therefore a sidecar hands over a duplicate of
its worker's socket and a pidfd of itself: when it dies, the arbiter listens to the worker in
its place, and frees the permit when the worker releases it, hangs up or dies.
"""

import contextlib
import logging
import os
import select
import socket
import threading
import time
from typing import Final, Protocol

from harmony_api.net_board import NetBoard
from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import (
    ACQUIRE,
    RELEASE,
    FrameReader,
    GrantFlags,
    MessageType,
    Phase,
    ProtocolError,
    Turn,
    encode,
)
from harmony_sidecar.election import ElectionFolder, Seat
from harmony_sidecar.link_messages import (
    AT_ONCE,
    JOIN,
    MAXIMUM_MESSAGE_BYTES,
    PLAN,
    Join,
    encode_grant,
)
from harmony_sidecar.node_pages import record_body
from harmony_sidecar.permits import (
    Decision,
    Ended,
    Granted,
    LiveTurn,
    Member,
    PermitTable,
    Promoted,
)

log = logging.getLogger(__name__)

_ACCEPT_AGAIN_SECONDS: Final = 0.1
_DEATH_MILLISECONDS: Final = 1000
"""The sockets of a process close just before its death shows; one that lives joins anew."""
_SECONDARY: Final = int(GrantFlags.SECONDARY)
_PERMIT_PHASES: Final = {int(p): p for p in (Phase.PULL, Phase.COMP, Phase.PUSH)}


class Channel(Protocol):
    """The way to a member's worker."""

    def granted(self, request: int, live: LiveTurn, epoch: int) -> None:
        """The request got its turn."""

    def revoked(self, turn: Turn) -> None:
        """The turn holds nothing any more."""

    def replaced(self) -> None:
        """The member has joined through another channel."""


class Arbiter:
    """Hands out the permits of one node during one epoch."""

    def __init__(self, folder: ElectionFolder, seat: Seat, lock: threading.Lock) -> None:
        self.epoch = seat.epoch
        self._page = folder.page
        self._listener = seat.listener
        self._holders = seat.holders
        self._lock = lock
        self._board = NetBoard(folder.board_descriptor)
        self._board.begin_epoch(seat.epoch)
        self._table = PermitTable(seat.epoch)
        self._table.adopt(seat.inherited)
        self._shown: tuple[Turn | None, Turn | None] = (None, None)
        self._channels: dict[Member, Channel] = {}
        self._links: set[socket.socket] = set()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="arbiter", daemon=True).start()

    @property
    def deposed(self) -> bool:
        """Whether another arbiter has taken over, as after a stop of this process."""
        return self._page.epoch != self.epoch

    def join(
        self, member: Member, plan: NodePlan, channel: Channel, *, chunked: bool, held: Turn
    ) -> None:
        """A worker takes part; raises ValueError when its names are too long to record."""
        record_body(member, Phase.COMP, frozenset(plan.devices))
        previous = self._channels.get(member)
        self._channels[member] = channel
        if previous is not None and previous is not channel:
            previous.replaced()
        now = time.monotonic_ns()
        self._apply(self._table.join(member, plan, chunked=chunked, held=held, now_ns=now))
        if held and held not in self._table.live:
            channel.revoked(held)

    def set_plan(self, member: Member, plan: NodePlan) -> None:
        """A member's plan changed; raises ValueError as `join` does."""
        record_body(member, Phase.COMP, frozenset(plan.devices))
        self._apply(self._table.set_plan(member, plan, time.monotonic_ns()))

    def acquire(self, member: Member, request: int, phase: Phase) -> None:
        """Ask for a permit; the answer comes through the member's channel."""
        self._apply(self._table.request(member, request, phase, time.monotonic_ns()))

    def release(self, member: Member, turn: Turn) -> None:
        """End a turn, or withdraw the member's request when `turn` is 0."""
        if turn:
            self._apply(self._table.release(member, turn, time.monotonic_ns()))
        else:
            self._table.withdraw(member)

    def leave(self, member: Member, channel: Channel) -> None:
        """The worker is gone, unless it has come back through another channel."""
        if self._channels.get(member) is channel:
            del self._channels[member]
            self._apply(self._table.leave(member, time.monotonic_ns()))

    def detach(self, member: Member, channel: Channel) -> None:
        """Nobody speaks for the member for the moment; what it holds stays its own."""
        if self._channels.get(member) is channel:
            self._apply(self._table.detach(member, time.monotonic_ns()))

    def expire(self, now_ns: int) -> None:
        """Revoke what has outlived its lease."""
        self._apply(self._table.expire(now_ns))

    def close(self) -> None:
        """Stop serving; members look for the next arbiter."""
        self._closed.set()
        _shut(self._listener)
        for link in list(self._links):
            _shut(link)

    def _apply(self, decisions: list[Decision]) -> None:
        if not decisions:
            return
        if self.deposed:
            self.close()
            return
        primaries = self._table.primaries()
        if primaries != self._shown:
            self._show(primaries)
        for decision in decisions:
            live = decision.live
            if isinstance(decision, Granted):
                self._holders.write(live)
                self._channels[live.member].granted(decision.request, live, self.epoch)
            elif isinstance(decision, Promoted):
                self._holders.extend(live)
            elif decision.cause == "Lease" and live.member in self._channels:
                self._channels[live.member].revoked(live.turn)
        # Erased last: the next holder shall not wait for it, and a successor that still reads
        # it hears from the member that it holds nothing.
        for decision in decisions:
            if isinstance(decision, Ended):
                self._holders.erase(decision.live.turn)

    def _show(self, primaries: tuple[Turn | None, Turn | None]) -> None:
        self._shown = primaries
        self._board.set_primary(Phase.PULL, primaries[0])
        self._board.set_primary(Phase.PUSH, primaries[1])

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(_ACCEPT_AGAIN_SECONDS):
                    return
                continue
            threading.Thread(
                target=_Link(self, connection, self._lock, self._links).serve,
                name="arbiter-link",
                daemon=True,
            ).start()


class _Link:
    """One sidecar's connection, served by a thread of its own."""

    def __init__(
        self,
        arbiter: Arbiter,
        connection: socket.socket,
        lock: threading.Lock,
        links: set[socket.socket],
    ) -> None:
        self._arbiter = arbiter
        self._connection = connection
        self._lock = lock
        self._links = links
        self._member: Member | None = None

    def granted(self, request: int, live: LiveTurn, epoch: int) -> None:
        flags = _SECONDARY if live.secondary else 0
        self._send(encode_grant(request, live.turn, epoch, flags, live.deadline_ns))

    def revoked(self, turn: Turn) -> None:
        self._send(encode(MessageType.REVOKED, turn))

    def replaced(self) -> None:
        _shut(self._connection)

    def serve(self) -> None:
        """Serve until the link ends, then for the worker if the sidecar has died."""
        with self._lock:
            self._links.add(self._connection)
        with contextlib.ExitStack() as cleanup:
            cleanup.enter_context(self._connection)
            try:
                worker, sidecar = self._join(cleanup)
                farewell = self._serve_messages()
            except (OSError, ValueError, ProtocolError) as error:
                log.warning("closed the link of %s: %s", self._member or "a stranger", error)
                farewell = False
            with self._lock:
                self._links.discard(self._connection)
                if self._member is not None:
                    end = self._arbiter.leave if farewell else self._arbiter.detach
                    end(self._member, self)
            _shut(self._connection)
            if self._member is not None and not farewell and _has_died(sidecar):
                self._stand_in_for_the_sidecar(self._member, worker)

    def _join(self, cleanup: contextlib.ExitStack) -> tuple[socket.socket, int]:
        """Read JOIN; return the worker's socket and the pidfd of its sidecar."""
        data, descriptors, _, _ = socket.recv_fds(
            self._connection, MAXIMUM_MESSAGE_BYTES, 2, socket.MSG_CMSG_CLOEXEC
        )
        for descriptor in descriptors:
            cleanup.callback(os.close, descriptor)
        if len(data) < 3 or data[2] != JOIN or len(descriptors) != 2:
            raise ProtocolError("a link must begin with JOIN and two descriptors")
        join = Join.model_validate_json(data[3:])
        worker = cleanup.enter_context(
            socket.fromfd(descriptors[0], socket.AF_UNIX, socket.SOCK_STREAM)
        )
        member = Member(join.member)
        with self._lock:
            self._arbiter.join(member, join.plan, self, chunked=join.chunked, held=Turn(join.held))
        self._member = member
        return worker, descriptors[1]

    def _serve_messages(self) -> bool:
        """Return True when the worker is known to be gone."""
        member = self._member
        assert member is not None
        arbiter, lock = self._arbiter, self._lock
        receive = self._connection.recv_into
        buffer = bytearray(MAXIMUM_MESSAGE_BYTES)
        while size := receive(buffer):
            kind = buffer[2] if size > 2 else 0
            if kind == MessageType.RELEASE and size >= RELEASE.size:
                turn = RELEASE.unpack_from(buffer)[2]
                with lock:
                    arbiter.release(member, turn)
            elif kind == MessageType.ACQUIRE and size >= ACQUIRE.size:
                _, _, request, number, _ = ACQUIRE.unpack_from(buffer)
                phase = _PERMIT_PHASES.get(number)
                if phase is None:
                    raise ProtocolError(f"phase {number} needs no permit")
                with lock:
                    arbiter.acquire(member, request, phase)
            elif kind == PLAN:
                plan = NodePlan.model_validate_json(bytes(buffer[3:size]))
                with lock:
                    arbiter.set_plan(member, plan)
            elif kind == MessageType.END:
                return True
            else:
                raise ProtocolError(f"a message of type {kind} with {size} bytes")
        return False

    def _stand_in_for_the_sidecar(self, member: Member, worker: socket.socket) -> None:
        """Read what the worker says to its lost sidecar, until it hangs up.

        It is told that nobody answers any more, so that it looks for a restarted sidecar; if
        it joins through that one, this channel is not its channel any more.
        """
        reader = FrameReader()
        try:
            worker.shutdown(socket.SHUT_WR)
            while data := worker.recv(4096):
                for kind, fields in reader.feed(data):
                    if kind == MessageType.RELEASE:
                        with self._lock:
                            self._arbiter.release(member, Turn(int(fields[0])))
        except (OSError, ProtocolError):
            pass
        with self._lock:
            self._arbiter.leave(member, self)

    def _send(self, message: bytes) -> None:
        try:
            self._connection.send(message, AT_ONCE)
        except OSError:
            # A full or broken link: its thread wakes, and the sidecar joins anew.
            _shut(self._connection)


def _has_died(pidfd: int) -> bool:
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(_DEATH_MILLISECONDS))


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
