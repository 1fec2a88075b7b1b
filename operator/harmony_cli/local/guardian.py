"""The guardian: a tiny process that outlives the runner just long enough to leave nothing behind.

Every process of a run carries a marker in its environment, which its own children inherit,
whatever sessions they make. The guardian holds the read end of a pipe whose only writer is
the runner: when the runner is gone, however it ended, the read returns, and the guardian
kills whatever carries the marker and removes the run's network namespaces and its temporary
folder.

Runs as a file without `site`, so that it starts quickly and stays small: standard library only.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

RUN_MARKER = "HARMONY_RUN"
"""Environment variable that every process of a run carries, with the run's id."""


def namespace_prefix(run: str) -> str:
    """How the names of a run's network namespaces begin."""
    return f"harmony-{run[:12]}-"


def stop_marked(run: str, grace_seconds: float) -> None:
    """End every process of the run: SIGTERM, SIGKILL after the grace, until none is left.

    None is left when two looks in a row find nothing: a process shows no environment while it
    executes a new program.
    """
    if grace_seconds > 0:
        _wait(_signal_marked(run, signal.SIGTERM), grace_seconds)
    empty_looks = 0
    while empty_looks < 2:
        if killed := _signal_marked(run, signal.SIGKILL):
            empty_looks = 0
            _wait(killed, 1.0)
        else:
            empty_looks += 1
            time.sleep(0.01)


def remove_namespaces(run: str) -> None:
    """Remove the run's network namespaces, and with them their interfaces."""
    for path in Path("/run/netns").glob(namespace_prefix(run) + "*"):
        subprocess.run(["ip", "netns", "delete", path.name], capture_output=True)


def _signal_marked(run: str, number: signal.Signals) -> list[int]:
    """Signal the run's processes; return a descriptor per process that was there.

    The descriptor is opened before the environment is read, so a reused pid is never hit.
    """
    wanted = f"{RUN_MARKER}={run}".encode()
    found = []
    for entry in os.listdir("/proc"):  # noqa: PTH208 (pathlib is slower here, for no gain)
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        with suppress(OSError):
            descriptor = os.pidfd_open(int(entry))
            try:
                if wanted in Path("/proc", entry, "environ").read_bytes().split(b"\0"):
                    signal.pidfd_send_signal(descriptor, number)
                    found.append(os.dup(descriptor))
            finally:
                os.close(descriptor)
    return found


def _wait(processes: list[int], seconds: float) -> None:
    """Wait until all have ended or the time is over; closes the descriptors."""
    deadline = time.monotonic() + seconds
    for process in processes:
        poller = select.poll()
        poller.register(process, select.POLLIN)
        poller.poll(max(0.0, deadline - time.monotonic()) * 1000)
        os.close(process)


def main() -> None:
    """Wait for the runner's end, then clean up after it. Arguments: descriptor, run, folder."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    descriptor, run, folder = int(sys.argv[1]), *sys.argv[2:]
    os.read(descriptor, 1)
    stop_marked(run, 0)
    remove_namespaces(run)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
