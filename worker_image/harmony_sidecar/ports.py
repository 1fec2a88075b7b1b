"""The two ways from a session to its node's arbiter: a call, or a link to another process."""

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from harmony_api.node_plan import NodePlan
from harmony_api.unix_address import socket_address
from harmony_api.worker_protocol import (
    REVOKED,
    WELCOME,
    GrantFlags,
    MessageType,
    Phase,
    ProtocolError,
    Turn,
    encode,
)
from harmony_sidecar.arbiter import Arbiter
from harmony_sidecar.decisions import LiveTurn
from harmony_sidecar.link_messages import (
    AT_ONCE,
    JOIN,
    LEASE,
    LINK_GRANT,
    LINK_LEASE,
    PLAN,
    Join,
    encode_json,
)
from harmony_sidecar.session import WorkerSession

log = logging.getLogger(__name__)

_SECONDARY: Final = int(GrantFlags.SECONDARY)
_STANDING: Final = int(GrantFlags.STANDING)


class LocalPort:
    """For the sidecar that is the arbiter itself: no socket between."""

    def __init__(self, arbiter: Arbiter, session: WorkerSession, plan: NodePlan) -> None:
        """Join the arbiter; with the lock held. Raises ValueError as `Arbiter.join` does."""
        self._arbiter = arbiter
        self._session = session
        arbiter.join(
            session.member, plan, self, chunked=session.chunked, held=session.held, near=True
        )
        session.port_answers()

    def acquire(self, request: int, phase: Phase) -> None:
        """Ask for a permit."""
        self._arbiter.acquire(self._session.member, self, request, phase)

    def release(self, turn: Turn) -> None:
        """Return a turn; 0 withdraws the request."""
        self._arbiter.release(self._session.member, self, turn)

    def set_plan(self, plan: NodePlan) -> None:
        """Pass a new plan on."""
        self._arbiter.set_plan(self._session.member, self, plan)

    def leave(self) -> None:
        """The worker is gone."""
        self._arbiter.leave(self._session.member, self)

    def close(self) -> None:
        """Go away without a farewell: the worker is still there."""
        self._arbiter.detach(self._session.member, self)

    def granted(self, request: int, live: LiveTurn, epoch: int) -> None:
        """The request got its turn."""
        flags = (_SECONDARY if live.secondary else 0) | (_STANDING if live.standing else 0)
        self._session.granted(request, live.turn, epoch, flags, live.deadline_ns)

    def extended(self, turn: Turn, deadline_ns: int) -> None:
        """The turn's lease ends at another time."""
        self._session.lease_extended(turn, deadline_ns)

    def revoked(self, turn: Turn) -> None:
        """The turn holds nothing any more."""
        self._session.revoked(turn)

    def recalled(self) -> None:
        """The worker must wait for its turns again."""
        self._session.recalled()

    def dropped(self) -> None:
        """Another sidecar claims to serve this worker, or the role is elsewhere."""
        if self._session.port is self:
            self._session.drop_port()


class RemotePort:
    """A link to the arbiter in another sidecar, with a thread that waits for its answers."""

    def __init__(
        self,
        path: Path,
        session: WorkerSession,
        lock: threading.Lock,
        on_lost: Callable[["RemotePort"], None],
    ) -> None:
        """Connect; raises OSError when nobody listens there."""
        self._session = session
        self._lock = lock
        self._on_lost = on_lost
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            # A full backlog shall fail, not block: a stopped arbiter does not take links.
            self._socket.setblocking(False)
            with socket_address(path) as address:
                self._socket.connect(address)
            self._socket.setblocking(True)
        except OSError:
            self._socket.close()
            raise

    def join(self, plan: NodePlan, worker: socket.socket) -> None:
        """Introduce the worker, and begin to listen; raises ValueError, OSError."""
        session = self._session
        join = Join(member=session.member, chunked=session.chunked, held=session.held, plan=plan)
        pidfd = os.pidfd_open(os.getpid())
        try:
            message = encode_json(JOIN, join)
            socket.send_fds(self._socket, [message], [worker.fileno(), pidfd])
        finally:
            os.close(pidfd)
        threading.Thread(target=self._listen, name="arbiter-answers", daemon=True).start()

    def acquire(self, request: int, phase: Phase) -> None:
        """Ask for a permit."""
        self._send(encode(MessageType.ACQUIRE, request, phase, 0))

    def release(self, turn: Turn) -> None:
        """Return a turn; 0 withdraws the request."""
        self._send(encode(MessageType.RELEASE, turn, 0))

    def set_plan(self, plan: NodePlan) -> None:
        """Pass a new plan on."""
        self._send(encode_json(PLAN, plan))

    def leave(self) -> None:
        """The worker is gone."""
        self._send(encode(MessageType.END))
        self.close()

    def close(self) -> None:
        """Hang up without a farewell: the worker is still there."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def _send(self, message: bytes) -> None:
        try:
            self._socket.send(message, AT_ONCE)
        except OSError:
            self.close()

    def _listen(self) -> None:
        try:
            while message := self._socket.recv(128):
                self._act_on(message)
        except (OSError, ProtocolError) as error:
            log.info("lost the arbiter: %s", error)
        self.close()
        self._on_lost(self)
        self._socket.close()

    def _act_on(self, message: bytes) -> None:
        size = len(message)
        if size >= LINK_GRANT.size and message[2] == MessageType.GRANT:
            _, _, request, turn, epoch, flags, deadline_ns = LINK_GRANT.unpack_from(message)
            with self._lock:
                if self._session.port is self:
                    self._session.granted(request, turn, epoch, flags, deadline_ns)
        elif size >= LINK_LEASE.size and message[2] == LEASE:
            _, _, turn, deadline_ns = LINK_LEASE.unpack_from(message)
            with self._lock:
                self._session.lease_extended(turn, deadline_ns)
        elif size >= REVOKED.size and message[2] == MessageType.REVOKED:
            turn = REVOKED.unpack_from(message)[2]
            with self._lock:
                self._session.revoked(turn)
        elif size >= WELCOME.size and message[2] == MessageType.WELCOME:
            with self._lock:
                if self._session.port is self:
                    self._session.port_answers()
        else:
            raise ProtocolError(f"the arbiter sent {size} bytes that are no message")
