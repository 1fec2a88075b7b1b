"""The phases of one worker: which permit it holds, and what moves under it.

Invariant: at most one phase runs at a time, its permit is given back on every way out, and
transfers happen inside a PULL or PUSH only.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from harmony_api.worker_protocol import Phase
from harmony_worker.parameter_server.wire import OPEN_GATE, TransferGate
from harmony_worker.permits import PermitClient


class PhaseError(RuntimeError):
    """A phase was used in a way that cannot work; the message says what to change."""


class Phases:
    """Runs phases under permits, or without any where there is no sidecar."""

    def __init__(self, permits: PermitClient | None) -> None:
        self.permits = permits
        self.iteration = 0
        self.stop_requested = False
        """The plan asks this worker to stop at an iteration boundary."""
        self._phase: Phase | None = None
        self._gate: TransferGate = OPEN_GATE
        self._bytes_moved = 0

    @contextmanager
    def turn(self, phase: Phase) -> Iterator[None]:
        """Wait for a permit of `phase`, hold it in the block and give it back."""
        if self._phase is not None:
            raise PhaseError(f"{phase.name} within {self._phase.name}: phases follow one another")
        grant = self.permits.acquire(phase, self.iteration) if self.permits else None
        self._phase = phase
        self._bytes_moved = 0
        if grant is not None:
            self._gate = grant
            self.stop_requested |= grant.stop
        try:
            yield
        finally:
            self._phase = None
            self._gate = OPEN_GATE
            if self.permits and grant is not None:
                self.permits.release(grant, self._bytes_moved)

    def gate(self, phase: Phase) -> TransferGate:
        """Return the gate for a transfer of this phase; raises PhaseError outside of it."""
        if self._phase is not phase:
            name = phase.name.lower()
            raise PhaseError(f"optimizer.{name}() belongs inside `with job.{name}():`")
        return self._gate

    def moved(self, size: int) -> None:
        """Note bytes that moved in the present phase."""
        self._bytes_moved += size
