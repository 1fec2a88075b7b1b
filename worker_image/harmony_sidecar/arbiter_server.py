"""The links of a node's sidecars to the arbiter in this process.

A sidecar may die while its worker computes on. Therefore it hands over a duplicate of its
worker's socket and a pidfd of itself: when it dies, the arbiter listens to the worker in its
place, and frees the permit when the worker releases it, hangs up or dies.
"""

import contextlib
import logging
import os
import select
import socket
import threading
from typing import Final

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import (
    ACQUIRE,
    RELEASE,
    VERSION,
    FrameReader,
    GrantFlags,
    MessageType,
    Phase,
    ProtocolError,
    Turn,
    encode,
)
from harmony_sidecar.arbiter import Arbiter
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import LiveTurn
from harmony_sidecar.link_messages import (
    AT_ONCE,
    JOIN,
    MAXIMUM_MESSAGE_BYTES,
    PLAN,
    Join,
    encode_grant,
    encode_lease,
)

log = logging.getLogger(__name__)

_ACCEPT_AGAIN_SECONDS: Final = 0.1
_DEATH_MILLISECONDS: Final = 1000
"""The sockets of a process close just before its death shows; one that lives joins anew."""
_SECONDARY: Final = int(GrantFlags.SECONDARY)
_PERMIT_PHASES: Final = {int(p): p for p in (Phase.PULL, Phase.COMP, Phase.PUSH)}


class ArbiterServer:
    """Accepts links, and serves each in a thread of its own."""

    def __init__(self, arbiter: Arbiter, listener: socket.socket, lock: threading.Lock) -> None:
        self._arbiter = arbiter
        self._listener = listener
        self._lock = lock
        self._links: set[socket.socket] = set()
        self._closed = threading.Event()
        threading.Thread(target=self._accept, name="arbiter", daemon=True).start()

    def close(self) -> None:
        """Hang up; with the lock held."""
        self._closed.set()
        for connection in (self._listener, *self._links):
            _shut(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closed.wait(_ACCEPT_AGAIN_SECONDS):
                    self._listener.close()
                    return
                continue
            threading.Thread(
                target=_Link(self._arbiter, connection, self._lock, self._links).serve,
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

    def extended(self, turn: Turn, deadline_ns: int) -> None:
        self._send(encode_lease(turn, deadline_ns))

    def revoked(self, turn: Turn) -> None:
        self._send(encode(MessageType.REVOKED, turn))

    def recalled(self) -> None:
        """Only the worker of the arbiter's own sidecar has a standing leave."""

    def dropped(self) -> None:
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
            self._send(encode(MessageType.WELCOME, VERSION, 0))
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
                    arbiter.release(member, self, turn)
            elif kind == MessageType.ACQUIRE and size >= ACQUIRE.size:
                _, _, request, number, _ = ACQUIRE.unpack_from(buffer)
                phase = _PERMIT_PHASES.get(number)
                if phase is None:
                    raise ProtocolError(f"phase {number} needs no permit")
                with lock:
                    arbiter.acquire(member, self, request, phase)
            elif kind == PLAN:
                plan = NodePlan.model_validate_json(bytes(buffer[3:size]))
                with lock:
                    arbiter.set_plan(member, self, plan)
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
                            self._arbiter.release(member, self, Turn(int(fields[0])))
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
