"""Processes that never outlive the one who started them.

Every process gets a session of its own, so that an interrupt at the terminal reaches the tests
only, and is killed by the kernel when the starting process ends in whatever way
(`PR_SET_PDEATHSIG`). The kernel watches the starting *thread*, hence only the main thread starts
processes. Stopping is by process id and waits for the end.
"""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

LOG_TAIL_BYTES = 4000


class Process:
    """A running program whose output goes to a log file."""

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        log: Path,
        *,
        pass_fds: Sequence[int] = (),
    ) -> None:
        """Start `command`; its output is added to `log`."""
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError(f"{name} would end with this thread: start it from the main thread")
        self.name = name
        self.log = log
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as output:
            self._popen = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=pass_fds,
            )

    @property
    def pid(self) -> int:
        """The id of the started process, also after its end."""
        return self._popen.pid

    @property
    def alive(self) -> bool:
        """Whether the process still runs."""
        return self._popen.poll() is None

    def log_tail(self) -> str:
        """Return the end of what the process wrote, for error messages."""
        text = self.log.read_bytes()[-LOG_TAIL_BYTES:].decode(errors="replace")
        return f"--- the end of {self.log}\n{text}"

    def stop(self, grace_seconds: float = 10.0) -> None:
        """Ask the process to end, kill its group after `grace_seconds`, and wait for the end."""
        if self.alive:
            os.killpg(self.pid, signal.SIGTERM)
            try:
                self._popen.wait(grace_seconds)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End the process and its group at once (SIGKILL)."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self._popen.wait()
