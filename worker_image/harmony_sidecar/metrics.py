"""The sidecar's Prometheus metrics, in a registry of their own."""

from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from harmony_api.worker_protocol import Phase
from harmony_sidecar.turn_ring import PastTurn

_BUCKETS: Final = (0.0001, 0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)


class SidecarMetrics:
    """Every metric, with its labels bound once."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        turns = Counter(
            "harmony_sidecar_turns", "Phases that ended.", ["phase"], registry=self.registry
        )
        moved = Counter(
            "harmony_sidecar_bytes", "Bytes moved by the worker.", ["phase"], registry=self.registry
        )
        waits = Histogram(
            "harmony_sidecar_wait_seconds",
            "From a request to its grant; for SYNC, to the peers' pushes.",
            ["phase"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        holds = Histogram(
            "harmony_sidecar_hold_seconds",
            "From a grant to its release.",
            ["phase"],
            buckets=_BUCKETS,
            registry=self.registry,
        )
        self._turns = {phase: turns.labels(phase.name) for phase in Phase}
        self._bytes = {phase: moved.labels(phase.name) for phase in Phase}
        self._waits = {phase: waits.labels(phase.name) for phase in Phase}
        self._holds = {phase: holds.labels(phase.name) for phase in Phase}
        self.uncoordinated = Counter(
            "harmony_sidecar_uncoordinated_turns",
            "Phases that ran without a permit because no arbiter or plan was there in time.",
            registry=self.registry,
        )
        self.revoked = Counter(
            "harmony_sidecar_revoked_turns",
            "Turns that outlived their lease.",
            registry=self.registry,
        )
        self.epoch = Gauge(
            "harmony_sidecar_epoch", "Epoch of the node's arbiter.", registry=self.registry
        )
        self.is_arbiter = Gauge(
            "harmony_sidecar_is_arbiter", "1 where this is the arbiter.", registry=self.registry
        )

    def observe(self, past: PastTurn) -> None:
        """Count one phase that ended."""
        phase = past.phase
        self._turns[phase].inc()
        if past.bytes_moved:
            self._bytes[phase].inc(past.bytes_moved)
        self._waits[phase].observe(past.wait_ns / 1e9)
        if phase is not Phase.SYNC:
            self._holds[phase].observe((past.end_ns - past.start_ns) / 1e9)
