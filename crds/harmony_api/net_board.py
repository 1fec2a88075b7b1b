"""The NetBoard: a page of shared memory that lets a secondary transfer see the primary.

A secondary NET turn may move bytes only while the primary of the same direction is idle, and
becomes the primary when that one ends. Asking for each chunk would cost a round trip, so the
node's arbiter writes who is primary, the primary writes when it last moved bytes, and a
secondary looks before each chunk. The page is advice: whatever a broken worker writes there,
permits are decided by the arbiter alone.

Layout, u64 words in the machine's byte order, each written whole: [0] epoch; then per
direction (in = PULL, out = PUSH) two words: turn of the primary (0: none) and CLOCK_MONOTONIC
ns of its last moved byte. On a half-duplex link the arbiter names the same primary in both
directions.
"""

import mmap
import os
import time
from typing import Final

from harmony_api.worker_protocol import Epoch, Phase, Turn

BOARD_BYTES: Final = 4096
IDLE_AFTER_NANOSECONDS: Final = 2_000_000
"""A primary that moved nothing for this long leaves the link to the secondary."""

_EPOCH: Final = 0
_PRIMARY: Final = {Phase.PULL: 1, Phase.PUSH: 3}
"""Word of a direction's primary; the next one says when it last moved bytes."""


class NetBoard:
    """One mapped page; arbiter, sidecars and workers of a node map the same file."""

    def __init__(self, descriptor: int) -> None:
        """Map the page behind `descriptor`, which stays open and owned by the caller."""
        if os.fstat(descriptor).st_size < BOARD_BYTES:
            os.ftruncate(descriptor, BOARD_BYTES)
        self._page = mmap.mmap(descriptor, BOARD_BYTES)
        # Through a view of words, so that a reader never sees half of one.
        self._words = memoryview(self._page).cast("Q")

    def close(self) -> None:
        """Unmap the page."""
        self._words.release()
        self._page.close()

    @property
    def epoch(self) -> Epoch:
        """Epoch of the arbiter that last wrote the page."""
        return Epoch(self._words[_EPOCH])

    def begin_epoch(self, epoch: Epoch) -> None:
        """A new arbiter: no primaries yet. Called by the arbiter only."""
        for word in _PRIMARY.values():
            self._words[word] = self._words[word + 1] = 0
        self._words[_EPOCH] = epoch

    def set_primary(self, direction: Phase, turn: Turn | None) -> None:
        """Name the primary turn of a direction, or none. Called by the arbiter only."""
        word = _PRIMARY[direction]
        self._words[word + 1] = time.monotonic_ns() if turn else 0
        self._words[word] = turn or 0

    def touch(self, turn: Turn) -> None:
        """The holder of `turn` has just moved bytes; noted where it is the primary."""
        now = time.monotonic_ns()
        for word in _PRIMARY.values():
            if self._words[word] == turn:
                self._words[word + 1] = now

    def is_primary(self, direction: Phase, turn: Turn) -> bool:
        """Whether a turn is the primary of a direction by now."""
        return self._words[_PRIMARY[direction]] == turn

    def may_move(self, direction: Phase, turn: Turn) -> bool:
        """Whether a secondary turn may move its next chunk now."""
        word = _PRIMARY[direction]
        if self._words[word] in (0, turn):
            return True
        return time.monotonic_ns() - self._words[word + 1] > IDLE_AFTER_NANOSECONDS
