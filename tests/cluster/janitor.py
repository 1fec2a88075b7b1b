"""Removes what a test cluster leaves on the machine, whichever way its owner ends.

Run as a program beside the cluster: it waits until its standard input closes, which the kernel
does for an owner that was killed, and then removes the folders and control groups named by its
arguments. Processes, namespaces and mounts need no removal: they end with their owner.
"""

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
PATIENCE_SECONDS = 20.0


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
    """Remove a folder; one of the control group file system only once no process is in it."""
    if not path.is_relative_to(CGROUPS):
        shutil.rmtree(path, ignore_errors=True)
        return
    for group in sorted((path, *path.rglob("*/")), reverse=True):
        group.rmdir()


def main(paths: Sequence[str]) -> None:
    """Wait for the end of the owner, then remove `paths`, again and again while they are busy."""
    sys.stdin.read()
    for path in map(Path, paths):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while path.exists() and time.monotonic() < deadline:
            try:
                remove(path)
            except OSError:
                time.sleep(0.05)


if __name__ == "__main__":
    main(sys.argv[1:])
