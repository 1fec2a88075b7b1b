"""Election of a node's arbiter in the node's store.

The page's epoch names the arbiter, its heartbeat shows that it lives. A lock alone would not
do, because a stopped process keeps it; so the lock guards only the instant of taking over,
and an arbiter that resumes after a stop finds a newer epoch than its own and steps down.
"""

import contextlib
import fcntl
import os
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harmony_api.net_board import BOARD_BYTES
from harmony_api.pod_layout import ELECTION_FOLDER
from harmony_api.unix_address import socket_address
from harmony_api.worker_protocol import Epoch
from harmony_sidecar.decisions import LiveTurn
from harmony_sidecar.node_pages import ElectionPage, HoldersPage, open_page_file

HEARTBEAT_SECONDS: Final = 0.1
SILENCE_NANOSECONDS: Final = 500_000_000
"""A heartbeat older than this lets a successor take the next epoch."""


@dataclass(frozen=True)
class Seat:
    """What a newly elected arbiter starts with."""

    epoch: Epoch
    listener: socket.socket
    holders: HoldersPage
    inherited: list[LiveTurn]
    """Turns that the arbiter before had out."""


class ElectionFolder:
    """The part of the node's store in which the arbiter is elected."""

    def __init__(self, node_store: Path) -> None:
        """Create what is missing; raises OSError when the store cannot be written."""
        self._folder = node_store / ELECTION_FOLDER
        self._folder.mkdir(parents=True, exist_ok=True)
        self.page = ElectionPage(self._folder / "arbiter")
        self.board_descriptor = open_page_file(self._folder / "net-board", BOARD_BYTES)

    def is_vacant(self, now_ns: int) -> bool:
        """Whether nobody has shown to be the arbiter lately."""
        silence = self.page.silence_ns(now_ns)
        return silence is None or silence > SILENCE_NANOSECONDS

    def take_over(self, now_ns: int) -> Seat | None:
        """Become the arbiter of the next epoch, unless somebody else is or becomes it."""
        with self._lock() as locked:
            if not locked or not self.is_vacant(now_ns):
                return None
            inherited: list[LiveTurn] = []
            previous = self.page.epoch if self.page.same_boot else Epoch(0)
            if previous and self._holders_path(previous).exists():
                page = HoldersPage(self._holders_path(previous))
                inherited = sorted(page.read(), key=lambda live: live.turn)
                page.close()
            epoch = Epoch(previous + 1)
            self._holders_path(epoch).unlink(missing_ok=True)
            holders = HoldersPage(self._holders_path(epoch))
            for live in inherited:
                holders.write(live)
            self.socket_path(epoch).unlink(missing_ok=True)
            listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with socket_address(self.socket_path(epoch)) as address:
                listener.bind(address)
            listener.listen(128)
            self.page.begin(epoch, now_ns)
            self._remove_other_epochs(epoch)
            return Seat(epoch, listener, holders, inherited)

    def socket_path(self, epoch: Epoch) -> Path:
        """Where the arbiter of an epoch listens."""
        return self._folder / f"arbiter-{epoch}.sock"

    def _holders_path(self, epoch: Epoch) -> Path:
        return self._folder / f"holders-{epoch}"

    @contextlib.contextmanager
    def _lock(self) -> Iterator[bool]:
        descriptor = os.open(
            self._folder / "take-over.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o660
        )
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            yield True
        except BlockingIOError:
            yield False
        finally:
            os.close(descriptor)

    def _remove_other_epochs(self, epoch: Epoch) -> None:
        kept = {self.socket_path(epoch), self._holders_path(epoch)}
        for pattern in ("arbiter-*.sock", "holders-*"):
            for path in self._folder.glob(pattern):
                if path not in kept:
                    path.unlink(missing_ok=True)
