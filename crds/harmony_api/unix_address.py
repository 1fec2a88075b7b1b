"""Addresses of Unix sockets whose path is too long for `sockaddr_un`.

The kernel takes 107 bytes. A socket below a run folder or a pod's volume is easily deeper, so
sidecar and worker reach it through an open descriptor of its folder.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_MAXIMUM_BYTES = 107


@contextmanager
def socket_address(path: Path) -> Iterator[str]:
    """Yield an address for `bind` or `connect`; raises OSError when its folder is missing."""
    if len(os.fsencode(path)) <= _MAXIMUM_BYTES:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
