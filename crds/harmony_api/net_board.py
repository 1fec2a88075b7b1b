"""The NetBoard: a page of shared memory that lets a secondary transfer see the primary.

A secondary NET turn may move bytes only while the primary of the same direction is idle, and
becomes the primary when that one ends. Asking for each chunk would cost a round trip, so the
node's arbiter writes who is primary, the primary writes when it last moved bytes, and a
secondary looks before each chunk. The page is advice: whatever a broken worker writes there,
permits are decided by the arbiter alone.

Layout, little-endian u64: [0] epoch; then per direction (in = PULL, out = PUSH) two words:
turn of the primary (0: none) and CLOCK_MONOTONIC ns of its last moved byte. On a half-duplex
link the arbiter names the same primary in both directions.
"""

import mmap
import os
import struct
import time
from typing import Final

from harmony_api.worker_protocol import Epoch, Phase, Turn

BOARD_BYTES: Final = 4096
IDLE_AFTER_NANOSECONDS: Final = 2_000_000
"""A primary that moved nothing for this long leaves the link to the secondary."""

_WORD: Final = struct.Struct("<Q")
_PRIMARY: Final = struct.Struct("<QQ")
_DIRECTION_OFFSETS: Final = {Phase.PULL: 8, Phase.PUSH: 24}


class NetBoard:
    """One mapped page; arbiter, sidecars and workers of a node map the same file."""

    def __init__(self, descriptor: int) -> None:
        """Map the page behind `descriptor`, which stays open and owned by the caller."""
        if os.fstat(descriptor).st_size < BOARD_BYTES:
            os.ftruncate(descriptor, BOARD_BYTES)
        self._page = mmap.mmap(descriptor, BOARD_BYTES)

    def close(self) -> None:
        """Unmap the page."""
        self._page.close()

    @property
    def epoch(self) -> Epoch:
        """Epoch of the arbiter that last wrote the page."""
        return Epoch(_WORD.unpack_from(self._page, 0)[0])

    def begin_epoch(self, epoch: Epoch) -> None:
        """A new arbiter: no primaries yet. Called by the arbiter only."""
        for offset in _DIRECTION_OFFSETS.values():
            _PRIMARY.pack_into(self._page, offset, 0, 0)
        _WORD.pack_into(self._page, 0, epoch)

    def set_primary(self, direction: Phase, turn: Turn | None) -> None:
        """Name the primary turn of a direction, or none. Called by the arbiter only."""
        now = time.monotonic_ns() if turn else 0
        _PRIMARY.pack_into(self._page, _DIRECTION_OFFSETS[direction], turn or 0, now)

    def touch(self, turn: Turn) -> None:
        """The holder of `turn` has just moved bytes; noted where it is the primary."""
        now = time.monotonic_ns()
        for offset in _DIRECTION_OFFSETS.values():
            if _WORD.unpack_from(self._page, offset)[0] == turn:
                _WORD.pack_into(self._page, offset + 8, now)

    def may_move(self, direction: Phase, turn: Turn) -> bool:
        """Whether a secondary turn may move its next chunk now."""
        primary, moved_ns = _PRIMARY.unpack_from(self._page, _DIRECTION_OFFSETS[direction])
        if primary in (0, turn):
            return True
        return bool(time.monotonic_ns() - moved_ns > IDLE_AFTER_NANOSECONDS)
