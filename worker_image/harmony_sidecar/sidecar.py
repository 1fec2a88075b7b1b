"""A sidecar: one worker's session, its share in the node's election, and their threads.

Each socket has a thread that blocks on it and forwards what comes, so that a hand-over costs
no switch between threads of one process. One lock guards session and arbiter; nothing blocks
while it is held. Two more threads wake rarely: one for the heartbeat, one for the plan.
"""

import contextlib
import logging
import socket
import threading
import time
from pathlib import Path
from typing import Final

from harmony_api.sidecar_state import SidecarState
from harmony_api.unix_address import socket_address
from harmony_api.worker_protocol import (
    MAGIC,
    VERSION,
    Epoch,
    FrameReader,
    MessageType,
    ProtocolError,
    Turn,
)
from harmony_sidecar.accounts import TurnAccounts
from harmony_sidecar.arbiter import Arbiter
from harmony_sidecar.arbiter_server import ArbiterServer
from harmony_sidecar.election import HEARTBEAT_SECONDS, ElectionFolder
from harmony_sidecar.plan_file import PlanFile
from harmony_sidecar.ports import LocalPort, RemotePort
from harmony_sidecar.session import WorkerSession
from harmony_sidecar.turn_ring import PHASE_NAMES

log = logging.getLogger(__name__)

PLAN_SECONDS: Final = 0.5
HELLO_SECONDS: Final = 5.0


class Sidecar:
    """Everything of one sidecar process but its HTTP server."""

    def __init__(
        self, *, job: str, worker: int, socket_path: Path, node_store: Path, plan_path: Path
    ) -> None:
        """Listen for the worker; raises OSError when socket or store cannot be made."""
        self.lock = threading.Lock()
        self.accounts = TurnAccounts()
        self._folder = ElectionFolder(node_store)
        self.session = WorkerSession(
            job,
            worker,
            self.accounts,
            self._folder.board_descriptor,
            lambda: self._folder.page.epoch,
        )
        self.arbiter: Arbiter | None = None
        self._server: ArbiterServer | None = None
        self._plan_file = PlanFile(plan_path)
        self._joined_epoch = Epoch(0)
        self._complaint = ""
        self._closing = threading.Event()
        self._wake = threading.Event()
        socket_path.parent.mkdir(parents=True, exist_ok=True)
        socket_path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        with socket_address(socket_path) as address:
            self._listener.bind(address)
        # The worker is another user. Who may reach it is the folder's business: in a pod nobody
        # else sees it.
        socket_path.chmod(0o666)
        self._listener.listen(16)

    def start(self) -> None:
        """Begin to serve, in threads that end with the process."""
        self._read_plan()
        for name, target in (
            ("workers", self._accept_workers),
            ("heartbeat", self._beat),
            ("plan", self._watch_plan),
        ):
            threading.Thread(target=target, name=name, daemon=True).start()

    def close(self) -> None:
        """Hand the arbiter's role over at once, and hang up on the worker."""
        self._closing.set()
        with self.lock:
            if self.arbiter is not None and not self.arbiter.deposed:
                self._folder.page.resign()
            self._step_down()
            for connection in (self._listener, self.session.connection):
                if connection is not None:
                    with contextlib.suppress(OSError):
                        connection.shutdown(socket.SHUT_RDWR)

    def state(self) -> SidecarState:
        """Where the worker stands, and who the arbiter is."""
        with self.lock:
            state = self.session.state()
            arbiter = self.arbiter is not None
        waits, turns = self.accounts.wait_seconds(), self.accounts.turns()
        return state.model_copy(
            update={
                "arbiter": arbiter,
                "epoch": self._joined_epoch,
                "wait_seconds": {PHASE_NAMES[phase]: value for phase, value in waits.items()},
                "turns": {PHASE_NAMES[phase]: value for phase, value in turns.items()},
                "profile": self.accounts.profile(),
            }
        )

    # ---- the worker

    def _accept_workers(self) -> None:
        while not self._closing.is_set():
            try:
                connection, _ = self._listener.accept()
            except OSError:
                if self._closing.wait(0.1):
                    return
                continue
            threading.Thread(
                target=self._serve_worker, args=(connection,), name="worker", daemon=True
            ).start()

    def _serve_worker(self, connection: socket.socket) -> None:
        session, lock, reader = self.session, self.lock, FrameReader()
        greeted = False
        try:
            connection.settimeout(HELLO_SECONDS)
            receive, feed, say = connection.recv, reader.feed, session.worker_said
            while data := receive(4096):
                frames = feed(data)
                if not greeted and frames:
                    kind, fields = frames.pop(0)
                    if kind != MessageType.HELLO:
                        raise ProtocolError("the first message must be HELLO")
                    self._greet(connection, *map(int, fields))
                    greeted = True
                    connection.settimeout(None)
                if frames:
                    with lock:
                        if session.connection is not connection:
                            break
                        for kind, fields in frames:
                            say(kind, fields)
        except (OSError, ProtocolError) as error:
            if not self._closing.is_set():
                log.warning("closed a worker's connection: %s", error)
        finally:
            if not self._closing.is_set():
                with lock:
                    session.worker_disconnected(connection)
            # The arbiter may hold a duplicate: only a shutdown tells the worker.
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()

    def _greet(
        self,
        connection: socket.socket,
        magic: int,
        version: int,
        flags: int,
        phase: int,
        turn: int,
    ) -> None:
        if magic != MAGIC or version != VERSION:
            raise ProtocolError(f"HELLO with magic {magic:#x} and version {version}")
        with self.lock:
            previous = self.session.connection
            if previous is not None:
                with contextlib.suppress(OSError):
                    previous.shutdown(socket.SHUT_RDWR)
            self.session.worker_connected(connection, flags, phase, Turn(turn))
            self.session.drop_port()
        self._wake.set()

    # ---- the arbiter

    def _beat(self) -> None:
        while not self._closing.is_set():
            try:
                self._tick()
            except OSError as error:
                self._complain(f"no election in the node's store: {error}")
            self._wake.wait(HEARTBEAT_SECONDS)
            self._wake.clear()

    def _tick(self) -> None:
        """Show that this arbiter lives, or become one, or find the one there is."""
        page = self._folder.page
        with self.lock:
            now = time.monotonic_ns()
            if self.arbiter is not None and self.arbiter.deposed:
                log.warning("epoch %d has ended, another arbiter took over", self.arbiter.epoch)
                self._step_down()
                self.accounts.metrics.is_arbiter.set(0)
                self.session.drop_port()
            if self.arbiter is not None:
                page.beat(now)
                self.arbiter.expire(now)
            self.session.look_after_request(now)
        self.accounts.settle()
        if self.arbiter is None and self._folder.is_vacant(now):
            seat = self._folder.take_over(now)
            if seat is not None:
                with self.lock:
                    self.arbiter = Arbiter(self._folder, seat)
                    self._server = ArbiterServer(self.arbiter, seat.listener, self.lock)
                    self.accounts.metrics.is_arbiter.set(1)
                log.info("arbiter of epoch %d", seat.epoch)
        epoch = page.epoch
        with self.lock:
            if epoch != self._joined_epoch:
                self._joined_epoch = epoch
                self.accounts.metrics.epoch.set(epoch)
                self.session.drop_port()
            if self.session.port is None and self.session.wants_port:
                self._open_port()

    def _step_down(self) -> None:
        if self._server is not None:
            self._server.close()
        self.arbiter = self._server = None

    def _open_port(self) -> None:
        session = self.session
        plan, worker = session.plan, session.connection
        if plan is None or worker is None:
            return
        try:
            if self.arbiter is not None:
                session.port_opened(LocalPort(self.arbiter, session, plan))
            else:
                path = self._folder.socket_path(self._joined_epoch)
                port = RemotePort(path, session, self.lock, self._port_lost)
                port.join(plan, worker)
                session.port_opened(port)
        except (OSError, ValueError) as error:
            self._complain(f"cannot join the arbiter: {error}")

    def _complain(self, complaint: str) -> None:
        """Log what is tried again ten times a second, but once."""
        if complaint != self._complaint:
            log.warning("%s", complaint)
            self._complaint = complaint

    def _port_lost(self, port: RemotePort) -> None:
        with self.lock:
            if self.session.port is port:
                self.session.drop_port()

    # ---- the plan

    def _watch_plan(self) -> None:
        while not self._closing.wait(PLAN_SECONDS):
            self._read_plan()

    def _read_plan(self) -> None:
        plan = self._plan_file.changed()
        if plan is None:
            return
        try:
            with self.lock:
                self.session.set_plan(plan)
        except ValueError as error:
            log.warning("the arbiter cannot take this plan: %s", error)
        self._wake.set()
