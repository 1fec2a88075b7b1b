"""What one iteration costs, from the phases that ran; waiting is never part of it."""

import statistics
from collections import deque
from typing import Final

from harmony_api.profile import JobProfile
from harmony_api.worker_protocol import Phase
from harmony_sidecar.turn_ring import PastTurn

WINDOW: Final = 64
WARM_UP_ITERATIONS: Final = 2
"""The first iterations after a start allocate, compile and connect."""
MINIMUM_ITERATIONS: Final = 3

_PHASES: Final = (Phase.PULL, Phase.COMP, Phase.PUSH)


class PhaseProfile:
    """Medians over a recent window of every phase."""

    def __init__(self) -> None:
        self._nanoseconds: dict[Phase, deque[int]] = {p: deque(maxlen=WINDOW) for p in Phase}
        self._overlapped: dict[Phase, deque[int]] = {p: deque(maxlen=WINDOW) for p in Phase}
        self._bytes: dict[Phase, int] = dict.fromkeys(Phase, 0)
        self._iterations = 0
        self._warm_up = WARM_UP_ITERATIONS

    def worker_started(self) -> None:
        """A new worker process: its first iterations do not count."""
        self._warm_up = WARM_UP_ITERATIONS

    def add(self, past: PastTurn) -> None:
        """Take a turn in that ran to its end under a plan.

        A transfer that overlapped another as the secondary counts only as long as there is
        no undisturbed one, and without the time for which it stood aside.
        """
        if self._warm_up:
            self._warm_up -= past.phase is Phase.PUSH
            return
        if past.phase is Phase.SYNC:
            self._nanoseconds[Phase.SYNC].append(past.update_ns)
            return
        samples = self._overlapped if past.secondary else self._nanoseconds
        samples[past.phase].append(past.end_ns - past.start_ns - past.paused_ns)
        self._bytes[past.phase] = past.bytes_moved
        self._iterations += past.phase is Phase.PUSH

    def typical(self) -> JobProfile | None:
        """Return the profile, or None before MINIMUM_ITERATIONS have been measured."""
        if self._iterations < MINIMUM_ITERATIONS:
            return None
        medians = [self._median_microseconds(phase) for phase in _PHASES]
        if None in medians:
            return None
        pull, compute, push = (median or 0 for median in medians)
        return JobProfile(
            iterations=self._iterations,
            pull_microseconds=pull,
            compute_microseconds=compute,
            push_microseconds=push,
            update_microseconds=self._median_microseconds(Phase.SYNC) or 0,
            pull_bytes=self._bytes[Phase.PULL],
            push_bytes=self._bytes[Phase.PUSH],
        )

    def _median_microseconds(self, phase: Phase) -> int | None:
        samples = self._nanoseconds[phase] or self._overlapped[phase]
        return round(statistics.median(samples) / 1000) if samples else None
