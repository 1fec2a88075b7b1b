"""A phase that a worker runs, from its request to the record of it."""

from dataclasses import dataclass
from typing import Final

from harmony_api.worker_protocol import Phase, Turn
from harmony_sidecar.turn_ring import EndedBy, PastTurn

NEVER_NANOSECONDS: Final = 1 << 63
"""Deadline of a phase without a lease."""


@dataclass(slots=True)
class PermitRequest:
    """What a worker waits for."""

    number: int
    phase: Phase
    iteration: int
    since_ns: int
    heard_ns: int
    """When the worker last heard that it waits."""
    asked: int
    """Its number towards the arbiter."""
    begun: bool = False
    """It does not wait: the phase runs already, by a standing leave."""
    late: bool = False
    """It has begun, and did not get its turn at once."""

    def without_permit(
        self, end_ns: int, bytes_moved: int = 0, ended_by: EndedBy = "Release"
    ) -> PastTurn:
        """Return what has run of a begun phase before it had a turn."""
        return PastTurn(
            self.phase,
            self.iteration,
            0,
            0,
            self.since_ns,
            self.since_ns,
            end_ns,
            bytes_moved,
            coordinated=False,
            ended_by=ended_by,
        )


@dataclass(slots=True)
class HeldTurn:
    """What a worker runs."""

    turn: Turn
    """0: without a permit."""
    phase: Phase
    iteration: int
    requested_ns: int
    start_ns: int
    deadline_ns: int
    """End of its lease."""
    epoch: int = 0
    secondary: bool = False
    measured: bool = True
    """Whether it tells what the phase costs."""
    paused_ns: int = 0
    """How long a transfer stood aside for a primary."""
    begun: bool = False
    """The worker does not know its turn, and names 0 instead."""

    def is_named(self, turn: int) -> bool:
        """Whether a RELEASE of `turn` ends it."""
        return turn == self.turn or (turn == 0 and self.begun)

    def until(self, end_ns: int, bytes_moved: int = 0) -> PastTurn:
        """Return the whole phase, its lease aside."""
        return PastTurn(
            self.phase,
            self.iteration,
            self.turn,
            self.epoch,
            self.requested_ns,
            self.start_ns,
            end_ns,
            bytes_moved,
            paused_ns=min(self.paused_ns, end_ns - self.start_ns),
            secondary=self.secondary,
            coordinated=self.turn != 0,
        )

    def within_lease(self, past: PastTurn, ended_by: EndedBy = "Release") -> PastTurn:
        """Cut it at the end of the lease: beyond that, others may hold what it held."""
        if past.end_ns > self.deadline_ns:
            end_ns = max(self.deadline_ns, self.start_ns)
            paused_ns = min(past.paused_ns, end_ns - self.start_ns)
            return past._replace(end_ns=end_ns, paused_ns=paused_ns, ended_by="Lease")
        return past if ended_by == "Release" else past._replace(ended_by=ended_by)
