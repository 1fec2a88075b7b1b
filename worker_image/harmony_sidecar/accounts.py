"""What became of a worker's turns: the timeline, the profile, the metrics.

A permit is handed over first and accounted for later: the threads on the permit path only
note a turn that ended, and the rest happens in the heartbeat's thread, or when somebody asks.
"""

import threading
from collections import deque

from prometheus_client import generate_latest

from harmony_api.profile import JobProfile
from harmony_api.sidecar_state import TurnPage
from harmony_api.worker_protocol import Phase
from harmony_sidecar.metrics import SidecarMetrics
from harmony_sidecar.phase_profile import PhaseProfile
from harmony_sidecar.turn_ring import PastTurn, TurnRing


class TurnAccounts:
    """The books of one worker; safe to call from any thread."""

    def __init__(self) -> None:
        self.metrics = SidecarMetrics()
        self._noted: deque[tuple[PastTurn | None, PastTurn | None] | None] = deque()
        self._lock = threading.Lock()
        self._ring = TurnRing()
        self._profile = PhaseProfile()
        self._wait_ns = dict.fromkeys(Phase, 0)
        self._turns = dict.fromkeys(Phase, 0)

    def note(self, recorded: PastTurn | None, measured: PastTurn | None) -> None:
        """Remember a turn that ended, and what it tells about the cost of its phase.

        They differ when a phase outlives its lease: it is recorded until the lease ended,
        and measured when it is through.
        """
        self._noted.append((recorded, measured))

    def worker_started(self) -> None:
        """A new worker process: its first iterations do not count."""
        self._noted.append(None)

    def settle(self) -> None:
        """Account for what has been noted."""
        with self._lock:
            while self._noted:
                entry = self._noted.popleft()
                if entry is None:
                    self._profile.worker_started()
                    continue
                recorded, measured = entry
                if recorded is not None:
                    self._turns[recorded.phase] += 1
                    self._wait_ns[recorded.phase] += recorded.wait_ns
                    self._ring.append(recorded)
                    self.metrics.observe(recorded)
                if measured is not None:
                    self._profile.add(measured)

    def wait_seconds(self) -> dict[Phase, float]:
        """Seconds waited so far for each phase; for SYNC, in all."""
        self.settle()
        return {phase: ns / 1e9 for phase, ns in self._wait_ns.items()}

    def turns(self) -> dict[Phase, int]:
        """Turns that ended so far."""
        self.settle()
        return dict(self._turns)

    def profile(self) -> JobProfile | None:
        """What an iteration costs; None until it is known."""
        self.settle()
        with self._lock:
            return self._profile.typical()

    def page(self, after: int) -> TurnPage:
        """Return turns as `TurnRing.page` does."""
        self.settle()
        with self._lock:
            return self._ring.page(after)

    def metrics_text(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        self.settle()
        return generate_latest(self.metrics.registry)
