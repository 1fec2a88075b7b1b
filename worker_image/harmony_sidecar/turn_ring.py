"""The last turns of a worker, in memory of fixed size: a timeline that costs nothing to keep."""

import struct
from typing import Final, Literal, NamedTuple

from harmony_api.sidecar_state import PhaseName, TurnPage, TurnRecord
from harmony_api.worker_protocol import Phase

CAPACITY: Final = 16384
PAGE_RECORDS: Final = 1024
"""Records in one answer: making it longer would hold the permits up."""

PHASE_NAMES: Final[dict[Phase, PhaseName]] = {
    Phase.PULL: "PULL",
    Phase.COMP: "COMP",
    Phase.PUSH: "PUSH",
    Phase.SYNC: "SYNC",
}
EndedBy = Literal["Release", "Lease", "Disconnect"]
_ENDED_BY: Final[tuple[EndedBy, ...]] = ("Release", "Lease", "Disconnect")
_CODES: Final = {name: code for code, name in enumerate(_ENDED_BY)}
_RECORD: Final = struct.Struct("<BBBBIQQQQQQQQ")


class PastTurn(NamedTuple):
    """One phase that has ended; times in CLOCK_MONOTONIC ns."""

    phase: Phase
    iteration: int
    turn: int
    epoch: int
    requested_ns: int
    start_ns: int
    end_ns: int
    bytes_moved: int = 0
    update_ns: int = 0
    paused_ns: int = 0
    secondary: bool = False
    coordinated: bool = True
    ended_by: EndedBy = "Release"

    @property
    def wait_ns(self) -> int:
        """How long the worker waited for it; a SYNC is nothing but waiting."""
        begin = self.end_ns if self.phase is Phase.SYNC else self.start_ns
        return begin - self.requested_ns


class TurnRing:
    """Holds the last CAPACITY turns; sequence numbers begin at 1."""

    def __init__(self) -> None:
        self._memory = bytearray(CAPACITY * _RECORD.size)
        self._last = 0

    def append(self, past: PastTurn) -> None:
        """Keep a turn, in place of the oldest."""
        _RECORD.pack_into(
            self._memory,
            (self._last % CAPACITY) * _RECORD.size,
            past.phase,
            past.secondary,
            past.coordinated,
            _CODES[past.ended_by],
            past.epoch,
            past.turn,
            past.iteration,
            past.requested_ns,
            past.start_ns,
            past.end_ns,
            past.bytes_moved,
            past.update_ns,
            past.paused_ns,
        )
        self._last += 1

    def page(self, after: int) -> TurnPage:
        """Return the oldest turns with a sequence number above `after`.

        Ask again with the page's `next_sequence`; one below `after` tells of a new sidecar.
        """
        first = max(after, self._last - CAPACITY, 0) + 1
        last = min(self._last, first + PAGE_RECORDS - 1)
        return TurnPage(
            next_sequence=last if first <= last else self._last,
            lost=max(0, first - 1 - after) if after <= self._last else 0,
            turns=[self._record(sequence) for sequence in range(first, last + 1)],
        )

    def _record(self, sequence: int) -> TurnRecord:
        phase, secondary, coordinated, ended_by, epoch, turn, *rest = _RECORD.unpack_from(
            self._memory, ((sequence - 1) % CAPACITY) * _RECORD.size
        )
        iteration, requested_ns, start_ns, end_ns, bytes_moved, update_ns, paused_ns = rest
        return TurnRecord.model_construct(
            sequence=sequence,
            phase=PHASE_NAMES[phase],
            iteration=iteration,
            turn=turn,
            epoch=epoch,
            requested_ns=requested_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            bytes=bytes_moved,
            update_ns=update_ns,
            paused_ns=paused_ns,
            secondary=bool(secondary),
            coordinated=bool(coordinated),
            ended_by=_ENDED_BY[ended_by],
        )
