"""Processes that were asked to end, and are ended for good when they do not."""

import os
import signal
import time
from contextlib import suppress

from harmony_cli.local.processes import Process


class Ending:
    """Ends processes without waiting for them; call `pass_by` now and then."""

    def __init__(self) -> None:
        self._deadlines: list[tuple[Process, float]] = []
        self._asked: set[Process] = set()

    def ask(self, process: Process, grace_seconds: float) -> None:
        """Send SIGTERM now, and SIGKILL to its process group after the grace."""
        if process.poll() is None and not self.asked(process):
            self._asked.add(process)
            process.send(signal.SIGTERM)
            self._deadlines.append((process, time.monotonic() + grace_seconds))

    def asked(self, process: Process) -> bool:
        """Whether the process was asked to end, so that its end is no failure."""
        return process in self._asked

    def pass_by(self) -> None:
        """Kill what had its time; forget what has ended."""
        now = time.monotonic()
        rest = []
        for process, deadline in self._deadlines:
            if process.poll() is not None:
                continue
            if now >= deadline:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            rest.append((process, deadline))
        self._deadlines = rest
