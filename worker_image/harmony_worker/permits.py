"""The worker's side of permits: ask the sidecar before a phase, tell it after.

Training must never stop for want of a sidecar. Where it is missing or hung, a phase starts
without a permit after SILENCE_SECONDS (counted anew when a lost one is back), the next ones
at once, and coordination resumes by itself when it answers again.

For the worker's main thread. No torch here: other programs may use it too.
"""

import logging
import os
import socket
import struct
import time
from pathlib import Path
from typing import Final

from harmony_api.net_board import NetBoard
from harmony_api.unix_address import socket_address
from harmony_api.worker_protocol import (
    MAGIC,
    SILENCE_SECONDS,
    VERSION,
    Epoch,
    FrameReader,
    GrantFlags,
    HelloFlags,
    MessageType,
    Phase,
    ProtocolError,
    Turn,
    encode,
)
from harmony_worker.grant import Grant

log = logging.getLogger(__name__)

_RECONNECT_SECONDS: Final = 0.02
_QUICK_NANOSECONDS: Final = 150_000
"""Where the last answer came this soon, the next is looked for without going to sleep."""
# Plain integers: operations on flag enums are slow, and this is the permit path.
_AT_ONCE: Final = int(socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
_UNCOORDINATED: Final = int(GrantFlags.UNCOORDINATED)
_STOP: Final = int(GrantFlags.STOP)
_STANDING: Final = int(GrantFlags.STANDING)


class PermitClient:
    """One worker's connection to its sidecar."""

    def __init__(self, path: Path, *, chunked: bool) -> None:
        self._path = path
        self._flags = HelloFlags.CHUNKED if chunked else HelloFlags.NONE
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._board: NetBoard | None = None
        self._request = 0
        self._quick = dict.fromkeys(Phase, False)
        self._unsent = b""
        self._silent = self._welcomed = False
        self._leave_epoch = 0
        """Epoch of the standing leave, with which phases begin without waiting; 0: none."""
        self._stop = False
        self._ended = False
        self._warned = False
        self._lost_at = time.monotonic()

    @classmethod
    def connect(cls, path: str | Path, *, chunked: bool = True) -> "PermitClient":
        """Connect to the sidecar that listens at `path`; where none does yet, try again later.

        `chunked`: transfers heed `Grant.before_chunk`, so they can be a secondary.
        """
        client = cls(Path(path), chunked=chunked)
        client._connect()
        return client

    def acquire(self, phase: Phase, iteration: int) -> Grant:
        """Wait for leave to run a phase; without a permit where nobody answers in time."""
        if self._leave_epoch:
            self._hear_out()
        if self._leave_epoch and self._leave_stands():
            self._send(encode(MessageType.BEGIN, phase, iteration))
            return Grant(phase, Turn(0), Epoch(0), 0, None)
        number = self._request = (self._request + 1) & 0xFFFFFFFF
        for _ in range(2):  # once more where the sidecar goes away and is back in time
            if not self._is_reachable():
                break
            asked_ns = time.monotonic_ns()
            self._send(encode(MessageType.ACQUIRE, number, phase, iteration))
            fields = self._await(MessageType.GRANT, number, spin=self._quick[phase])
            self._quick[phase] = time.monotonic_ns() - asked_ns < _QUICK_NANOSECONDS
            if fields is not None:
                _, turn, epoch, flags = map(int, fields)
                self._warned = False
                self._stop = self._stop or flags & _STOP != 0
                board = self._board if phase is not Phase.COMP else None
                return Grant(phase, Turn(turn), Epoch(epoch), flags, board)
        if not self._warned and not self._ended:
            log.warning("no sidecar answers at %s: going on without permits", self._path)
            self._warned = True
        return Grant(phase, Turn(0), Epoch(0), _UNCOORDINATED, None)

    def release(self, grant: Grant, bytes_moved: int = 0) -> None:
        """Return a permit, and say what the phase moved; does not wait."""
        if grant.paused_ns:
            self._unsent += encode(MessageType.PAUSED, grant.paused_ns)
        if grant.turn or not self._silent:
            self._send(encode(MessageType.RELEASE, grant.turn, bytes_moved))

    def synced(self, iteration: int, waited_ns: int, update_ns: int) -> None:
        """Record a SYNC: how long it took in all, and the servers' update within it."""
        if not self._silent:
            # It travels with the request for PULL that follows.
            self._unsent = encode(MessageType.SYNCED, iteration, waited_ns, update_ns)

    def report(self, iteration: int, total: int, loss: float) -> None:
        """Record progress; a total of 0 is unknown, a loss of NaN is none."""
        self._tell(encode(MessageType.REPORT, iteration, total, loss))

    def should_stop(self) -> bool:
        """Whether the plan asks the worker to stop at an iteration boundary."""
        if not self._stop and self._is_reachable():
            self._send(encode(MessageType.SHOULD_STOP))
            fields = self._await(MessageType.STOP)
            self._stop = fields is not None and fields[0] != 0
        return self._stop

    def end(self) -> None:
        """The program is done: nobody shall wait for it any more."""
        self._tell(encode(MessageType.END))
        self._ended = True
        self._leave_epoch = 0

    def close(self) -> None:
        """Hang up; what is held is free at once."""
        self._leave_epoch = 0
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # ---- connection

    def _is_reachable(self) -> bool:
        """Whether it makes sense to ask; waits a while for a sidecar that has just gone."""
        if self._ended:
            return False
        if self._silent:
            self._hear_out()
            if self._silent:
                return False
        while self._socket is None and not self._connect():
            if time.monotonic() > self._lost_at + SILENCE_SECONDS:
                return False
            time.sleep(_RECONNECT_SECONDS)
        return True

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.setblocking(False)  # a stopped sidecar with a full backlog shall not block
            with socket_address(self._path) as address:
                connection.connect(address)
            connection.setblocking(True)
            # Cheaper on each message than a time-out of Python's own.
            bound = struct.pack("@ll", int(SILENCE_SECONDS), int(SILENCE_SECONDS % 1 * 1e6))
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, bound)
        except OSError:
            connection.close()
            return False
        self._socket = connection
        self._reader = FrameReader()
        self._silent = self._welcomed = False
        self._unsent = encode(MessageType.HELLO, MAGIC, VERSION, self._flags, 0, 0) + self._unsent
        self._send(b"")
        return True

    def _lose(self) -> None:
        self.close()
        self._silent = False
        self._lost_at = time.monotonic()

    def _send(self, frame: bytes) -> None:
        frame, self._unsent = self._unsent + frame, b""
        if self._socket is None:
            return
        try:
            self._socket.send(frame, _AT_ONCE)
        except OSError:
            self._lose()

    def _tell(self, frame: bytes) -> None:
        if not self._silent:
            self._send(frame)

    def _await(
        self, answer: MessageType, number: int | None = None, *, spin: bool = False
    ) -> tuple[int | float, ...] | None:
        """Return the fields of the answer; None when the sidecar is silent or gone."""
        while self._socket is not None:
            found = None
            try:
                frames = self._receive_soon() if spin else self._receive(0)
            except BlockingIOError:
                self._silent = True
                self._leave_epoch = 0
                return None
            except (OSError, ProtocolError) as error:
                log.info("lost the sidecar: %s", error)
                self._lose()
                return None
            for kind, fields in frames:
                if kind == answer and number in (None, fields[0]):
                    found = fields
                    if kind == MessageType.GRANT:
                        # In order of arrival: a RECALL may follow in what was read at once.
                        _, _, epoch, flags = map(int, fields)
                        self._leave_epoch = epoch if flags & _STANDING else 0
                else:
                    self._hear(kind, fields)
            if found is not None:
                return found
        return None

    def _leave_stands(self) -> bool:
        """Whether the arbiter that gave the leave is still the arbiter; else it is over."""
        if self._board is None or self._board.epoch != self._leave_epoch:
            self._leave_epoch = 0
        return self._leave_epoch != 0

    def _hear_out(self) -> None:
        """Take in what the sidecar has said unasked, or after it was silent."""
        try:
            while self._socket is not None:
                for kind, fields in self._receive(socket.MSG_DONTWAIT):
                    self._hear(kind, fields)
                self._silent = False
        except BlockingIOError:
            pass
        except (OSError, ProtocolError):
            self._lose()

    def _hear(self, kind: int, fields: tuple[int | float, ...]) -> None:
        """Return the permit of a request that was given up; end a standing leave."""
        if kind == MessageType.RECALL:
            self._leave_epoch = 0
        elif kind == MessageType.GRANT and fields[1]:
            self._send(encode(MessageType.RELEASE, int(fields[1]), 0))

    def _receive_soon(self) -> list[tuple[int, tuple[int | float, ...]]]:
        """Look again and again for a moment, then wait: waking up takes longer than a look."""
        end_ns = time.monotonic_ns() + _QUICK_NANOSECONDS
        while time.monotonic_ns() < end_ns:
            try:
                return self._receive(socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
        return self._receive(0)

    def _receive(self, flags: int) -> list[tuple[int, tuple[int | float, ...]]]:
        """Return the frames that come next; raises BlockingIOError when none comes in time."""
        assert self._socket is not None
        if self._welcomed:
            data = self._socket.recv(4096, flags)
        else:
            data, descriptors, _, _ = socket.recv_fds(
                self._socket, 4096, 1, flags | socket.MSG_CMSG_CLOEXEC
            )
            for descriptor in descriptors:
                self._board = NetBoard(descriptor)
                os.close(descriptor)
            self._welcomed = True
        if not data:
            raise ConnectionResetError("the sidecar hung up")
        return self._reader.feed(data)
