"""The worker's side of permits: ask the sidecar before a phase, tell it after.

Training must never stop for want of a sidecar. Whatever is missing, hung or broken there, a
phase starts without a permit after SILENCE_SECONDS at the latest, the next ones at once, and
coordination resumes by itself when the sidecar answers again.

`acquire` and `release` are for the worker's main thread; `before_chunk` and `moved` of a
grant are for its transfer threads. No torch here: other programs may use it too.
"""

import logging
import os
import socket
import struct
import time
from collections.abc import Callable
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

log = logging.getLogger(__name__)

_RECONNECT_SECONDS: Final = 0.02
_BOARD_POLL_SECONDS: Final = 0.0002
_SECONDARY: Final = int(GrantFlags.SECONDARY)
_UNCOORDINATED: Final = int(GrantFlags.UNCOORDINATED)
_STOP: Final = int(GrantFlags.STOP)

_Frame = tuple[int, tuple[int | float, ...]]


class Grant:
    """Leave to run one phase, with or without a permit behind it."""

    __slots__ = ("_board", "epoch", "flags", "phase", "turn")

    def __init__(
        self, phase: Phase, turn: Turn, epoch: Epoch, flags: int, board: NetBoard | None
    ) -> None:
        self.phase = phase
        self.turn = turn
        """0 without a permit."""
        self.epoch = epoch
        self.flags = flags
        self._board = board

    @property
    def secondary(self) -> bool:
        """Whether it began as the secondary of its link."""
        return self.flags & _SECONDARY != 0

    @property
    def coordinated(self) -> bool:
        """Whether a permit is behind it."""
        return self.flags & _UNCOORDINATED == 0

    @property
    def stop(self) -> bool:
        """Whether the worker shall stop at an iteration boundary."""
        return self.flags & _STOP != 0

    @property
    def chunked(self) -> bool:
        """Whether bytes must move in small chunks now, each after `before_chunk`."""
        board = self._board
        return board is not None and self.secondary and not board.is_primary(self.phase, self.turn)

    def before_chunk(self) -> None:
        """Return when the next chunk may move: for a secondary, while the primary is idle."""
        board = self._board
        if board is None or not self.secondary:
            return
        while not board.may_move(self.phase, self.turn):
            time.sleep(_BOARD_POLL_SECONDS)

    def moved(self) -> None:
        """Bytes have just moved; the secondary, if there is one, keeps waiting."""
        if self._board is not None and self.turn:
            self._board.touch(self.turn)


class PermitClient:
    """One worker's connection to its sidecar."""

    def __init__(self, path: Path, *, chunked: bool) -> None:
        self._path = path
        self._flags = HelloFlags.CHUNKED if chunked else HelloFlags.NONE
        self._socket: socket.socket | None = None
        self._reader = FrameReader()
        self._board: NetBoard | None = None
        self._request = 0
        self._silent = False
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
        if self._is_reachable():
            self._request = (self._request + 1) & 0xFFFFFFFF
            number = self._request

            def is_answer(kind: int, fields: tuple[int | float, ...]) -> bool:
                return kind == MessageType.GRANT and fields[0] == number

            for _ in range(2):
                self._send(encode(MessageType.ACQUIRE, number, phase, iteration))
                fields = self._await(is_answer)
                if fields is not None:
                    _, turn, epoch, flags = map(int, fields)
                    self._warned = False
                    self._stop = self._stop or flags & _STOP != 0
                    board = self._board if phase is not Phase.COMP else None
                    return Grant(phase, Turn(turn), Epoch(epoch), flags, board)
                # The sidecar went away: ask once more if it is back in time.
                if self._silent or not self._is_reachable():
                    break
        if not self._warned:
            log.warning("no sidecar answers at %s: going on without permits", self._path)
            self._warned = True
        return Grant(phase, Turn(0), Epoch(0), _UNCOORDINATED, None)

    def release(self, grant: Grant, bytes_moved: int = 0) -> None:
        """Return a permit, and say what the phase moved; does not wait."""
        if self._silent:
            self._drain()
        else:
            self._send(encode(MessageType.RELEASE, grant.turn, bytes_moved))

    def synced(self, iteration: int, waited_ns: int, update_ns: int) -> None:
        """Record a SYNC: how long it took in all, and the servers' update within it."""
        self._tell(encode(MessageType.SYNCED, iteration, max(0, waited_ns), max(0, update_ns)))

    def report(self, iteration: int, total: int, loss: float) -> None:
        """Record progress; a total of 0 is unknown, a loss of NaN is none."""
        self._tell(encode(MessageType.REPORT, iteration, total, loss))

    def should_stop(self) -> bool:
        """Whether the plan asks the worker to stop at an iteration boundary."""
        if not self._stop and self._is_reachable():
            self._send(encode(MessageType.SHOULD_STOP))
            fields = self._await(lambda kind, _: kind == MessageType.STOP)
            self._stop = fields is not None and fields[0] != 0
        return self._stop

    def end(self) -> None:
        """The program is done: nobody shall wait for it any more."""
        self._tell(encode(MessageType.END))
        self._ended = True

    def close(self) -> None:
        """Hang up."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # ---- connection

    def _is_reachable(self) -> bool:
        """Whether it makes sense to ask; waits a while for a sidecar that has just gone."""
        if self._ended:
            return False
        if self._silent:
            self._drain()
            return not self._silent and self._socket is not None
        while self._socket is None and not self._connect():
            if self._silent or time.monotonic() > self._lost_at + SILENCE_SECONDS:
                return False
            time.sleep(_RECONNECT_SECONDS)
        return True

    def _connect(self) -> bool:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        # Bounds connect and send too; cheaper per message than Python's own time-outs.
        bound = struct.pack("@ll", int(SILENCE_SECONDS), int(SILENCE_SECONDS % 1 * 1e6))
        for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
            connection.setsockopt(socket.SOL_SOCKET, option, bound)
        self._reader = FrameReader()
        self._silent = False
        try:
            with socket_address(self._path) as address:
                connection.connect(address)
            self._socket = connection
            hello = encode(MessageType.HELLO, MAGIC, VERSION, self._flags, 0, 0)
            connection.send(hello, socket.MSG_NOSIGNAL)
            data, descriptors, _, _ = socket.recv_fds(connection, 4096, 1, socket.MSG_CMSG_CLOEXEC)
        except BlockingIOError:
            self._silent = True
            return False
        except OSError:
            connection.close()
            self._socket = None
            return False
        ...
