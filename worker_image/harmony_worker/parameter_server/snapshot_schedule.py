"""When a server saves its part of a snapshot, and the thread that writes it.

Training stops only while the state is copied; the file is written beside it. A snapshot that
cannot be written (a full disk) costs a warning: training goes on, and older ones stay.
"""

import logging
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from harmony_worker.parameter_server.shard import Shard
from harmony_worker.parameter_server.snapshots import SnapshotError, SnapshotStore
from harmony_worker.parameter_server.wire import bytes_of

log = logging.getLogger(__name__)


class SnapshotSchedule:
    """Takes snapshots of a shard into a store; without a store it never does."""

    def __init__(self, store: SnapshotStore | None, interval_seconds: float) -> None:
        self._store = store
        self._interval_seconds = interval_seconds
        self._last_seconds = time.monotonic()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="snapshot")
        self._writing: Future[None] | None = None

    @property
    def iterations(self) -> list[int]:
        """Iterations that can be restored."""
        return [] if self._store is None else self._store.iterations

    @property
    def newest(self) -> int | None:
        """The last iteration that can be restored."""
        return max(self.iterations, default=None)

    def keep(self, iteration: int) -> None:
        """Every server has this snapshot."""
        if self._store is not None:
            self._store.keep(iteration)

    @property
    def is_time(self) -> bool:
        """Whether the interval has passed and the last snapshot is written."""
        due = time.monotonic() - self._last_seconds >= self._interval_seconds
        return self._store is not None and due and not self._is_writing

    def check_identity(self, identity: str) -> None:
        """Raise SnapshotError when the store's snapshots are of something else."""
        if self._store is not None and self._store.identities - {identity}:
            raise SnapshotError(
                f"the snapshots in {self._store.folder} are of another model, optimizer or number "
                "of servers: use another folder, or remove them to start anew"
            )

    def take(self, iteration: int, shard: Shard, worker_states: list[bytes]) -> None:
        """Copy the shard's state now and write it in the background.

        Waits while the one before is being written, so that every server takes every snapshot.
        """
        if self._store is None:
            return
        self.drain()
        self._last_seconds = time.monotonic()
        try:
            state = _copy(shard, worker_states)
        except (MemoryError, RuntimeError) as error:
            log.warning("no memory for a snapshot at iteration %d: %s", iteration, error)
            return
        identity = shard.plan.identity
        self._writing = self._writer.submit(self._write, self._store, iteration, identity, state)

    def restore(self, iteration: int, shard: Shard) -> list[bytes]:
        """Put the shard to a snapshot and return the workers' states; raises SnapshotError."""
        self.drain()
        if self._store is None or iteration not in self._store.iterations:
            raise SnapshotError(f"there is no snapshot of iteration {iteration}")
        state = self._store.read(iteration)
        shard.restore(state["shard"])
        return [bytes(bytes_of(each)) for each in state["workers"]]

    def discard_after(self, iteration: int) -> None:
        """Remove snapshots of a future that a rollback has undone."""
        self.drain()
        if self._store is not None:
            self._store.discard_after(iteration)

    def drain(self) -> None:
        """Return when nothing is being written."""
        if self._writing is not None:
            self._writing.result()

    @property
    def _is_writing(self) -> bool:
        return self._writing is not None and not self._writing.done()

    def _write(
        self, store: SnapshotStore, iteration: int, identity: str, state: dict[str, Any]
    ) -> None:
        begin = time.monotonic()
        try:
            store.write(iteration, identity, state)
        except OSError as error:
            log.warning("snapshot at iteration %d was not written: %s", iteration, error)
            return
        log.info("snapshot at iteration %d took %.2f s", iteration, time.monotonic() - begin)


def _copy(shard: Shard, worker_states: list[bytes]) -> dict[str, Any]:
    return {
        "shard": shard.state(),
        "workers": [
            torch.frombuffer(bytearray(each), dtype=torch.uint8) if each else torch.empty(0)
            for each in worker_states
        ],
    }
