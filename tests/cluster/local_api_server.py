"""The API server alone, on the loopback: all that the tests of the API tier need.

No root and no namespaces. Garbage collection, namespaces, service accounts and resource claims
are looked after by the real controllers; nothing schedules or runs pods.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster.api_server import ApiServer
from cluster.control_plane import CONTROLLERS_WITHOUT_NODES, ControlPlane, Place
from cluster.janitor import Janitor
from cluster.pki import Authority


@contextmanager
def local_api_server() -> Iterator[ApiServer]:
    """Run a fresh API server; its programs must have been built."""
    folder = Path(tempfile.mkdtemp(prefix="harmony-api-server-"))
    janitor = Janitor(folder)
    try:
        control_plane = ControlPlane(
            folder,
            Place.on_loopback(),
            Authority(folder / "pki"),
            controllers=CONTROLLERS_WITHOUT_NODES,
        )
        try:
            control_plane.start()
            yield control_plane.api_server
        finally:
            control_plane.stop()
    finally:
        janitor.clean()
