"""Leave to run one phase, and what a transfer under it must heed.

`before_chunk` and `moved` are called by the worker's transfer threads, the rest by its main
thread.
"""

import threading
import time
from typing import Final

from harmony_api.net_board import NetBoard
from harmony_api.worker_protocol import Epoch, GrantFlags, Phase, Turn

_BOARD_POLL_SECONDS: Final = 0.0002
# Plain integers: operations on flag enums are slow, and this is the permit path.
_SECONDARY: Final = int(GrantFlags.SECONDARY)
_UNCOORDINATED: Final = int(GrantFlags.UNCOORDINATED)
_STOP: Final = int(GrantFlags.STOP)


class Grant:
    """Leave to run one phase, with or without a permit behind it."""

    __slots__ = ("_board", "_paused_ns", "epoch", "flags", "phase", "turn")

    def __init__(
        self, phase: Phase, turn: Turn, epoch: Epoch, flags: int, board: NetBoard | None
    ) -> None:
        self.phase = phase
        self.turn = turn
        """0 without a permit."""
        self.epoch = epoch
        self.flags = flags
        self._board = board
        self._paused_ns: dict[int, int] = {}
        """By thread; all stand aside at the same times."""

    @property
    def paused_ns(self) -> int:
        """How long the transfer stood aside for a primary."""
        return max(self._paused_ns.values(), default=0)

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
        if board is None or not self.secondary or board.may_move(self.phase, self.turn):
            return
        paused_ns = time.monotonic_ns()
        while not board.may_move(self.phase, self.turn):
            time.sleep(_BOARD_POLL_SECONDS)
        thread = threading.get_ident()
        self._paused_ns[thread] = self._paused_ns.get(thread, 0) + time.monotonic_ns() - paused_ns

    def moved(self) -> None:
        """Bytes have just moved; the secondary, if there is one, keeps waiting."""
        if self._board is not None and self.turn:
            self._board.touch(self.turn)
