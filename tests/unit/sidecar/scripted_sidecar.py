"""A sidecar that says what a test wants, to find out what the worker's side makes of it."""

import contextlib
import os
import socket
import tempfile
import threading
from collections import deque
from pathlib import Path

from harmony_api.net_board import BOARD_BYTES, NetBoard
from harmony_api.worker_protocol import VERSION, Epoch, FrameReader, MessageType, encode


class ScriptedSidecar:
    """Welcomes whoever connects, and answers each ACQUIRE and SHOULD_STOP with one write."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = Path(self._folder.name) / "worker.sock"
        self.said: list[tuple[int, tuple[int | float, ...]]] = []
        self.answers: deque[bytes] = deque()
        """What comes next; the request's number is written over each `NUMBER`."""
        self.connection: socket.socket | None = None
        self._descriptor = os.memfd_create("net-board")
        os.ftruncate(self._descriptor, BOARD_BYTES)
        self.board = NetBoard(self._descriptor)
        self.board.begin_epoch(Epoch(1))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def close(self) -> None:
        for connection in (self._listener, self.connection):
            if connection is not None:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()
        os.close(self._descriptor)
        self._folder.cleanup()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                with connection, contextlib.suppress(OSError):
                    self._serve_worker(connection)

    def _serve_worker(self, connection: socket.socket) -> None:
        welcome = encode(MessageType.WELCOME, VERSION, 0)
        socket.send_fds(connection, [welcome], [self._descriptor])
        self.connection = connection
        reader = FrameReader()
        while data := connection.recv(4096):
            for kind, fields in reader.feed(data):
                self.said.append((kind, fields))
                if kind in (MessageType.ACQUIRE, MessageType.SHOULD_STOP) and self.answers:
                    number = int(fields[0]) if fields else 0
                    answer = self.answers.popleft()
                    connection.sendall(answer.replace(NUMBER, number.to_bytes(4, "little")))


NUMBER = b"\xee\xdd\xcc\xbb"
"""Stands for the number of the request in an answer."""


def grant(turn: int, *, epoch: int = 1, flags: int = 0, stale: bool = False) -> bytes:
    """A GRANT of the request that is answered, or of one given up before."""
    number = 0xFFFFFFFF if stale else int.from_bytes(NUMBER, "little")
    return encode(MessageType.GRANT, number, turn, epoch, flags)
