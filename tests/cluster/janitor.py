"""Removes what a test cluster leaves on the machine, whichever way its owner ends.

Run as a program beside the cluster: it waits until its standard input closes, which the kernel
does for an owner that was killed, and then removes the folders and control groups named by its
arguments. Processes, namespaces and mounts need no removal: they end with their owner.
"""

import subprocess
import sys
import time
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PATIENCE_SECONDS = 10.0


class Janitor:
    """The janitor program, started by the owner of a cluster."""

    def __init__(self, *paths: Path) -> None:
        """Have `paths` removed when this process ends or calls `clean`."""
        self._popen = subprocess.Popen(
            [sys.executable, __file__, *map(str, paths)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def clean(self) -> None:
        """Have everything removed now, and wait for it."""
        self._popen.communicate()


def remove(path: Path) -> None:
    """Remove a folder, or a control group once the processes in it have ended."""
    if not path.is_relative_to(CGROUPS):
        subprocess.run(["rm", "--recursive", "--force", path])
        return
    deadline = time.monotonic() + PATIENCE_SECONDS
    while path.exists() and time.monotonic() < deadline:
        try:
            for group in sorted((path, *path.rglob("*/")), reverse=True):
                group.rmdir()
        except OSError:
            time.sleep(0.05)


if __name__ == "__main__":
    sys.stdin.read()
    for argument in sys.argv[1:]:
        remove(Path(argument))
