"""`python -m harmony_sidecar`: the sidecar of one worker, configured by its environment."""

import gc
import logging
import os
import signal
import sys
import threading
from pathlib import Path

from harmony_api import environment
from harmony_sidecar.http_server import SidecarHttpServer
from harmony_sidecar.sidecar import Sidecar

_REQUIRED = (environment.SOCKET, environment.JOB, environment.NODE_STORE, environment.NODE_PLAN)


def main() -> int:
    """Serve until SIGTERM or SIGINT; return the exit code."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    stopping = threading.Event()
    # From the start: the first process of a container is deaf to signals that it does not handle.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    # The sidecars of a node are different users of one group, and share files and sockets.
    os.umask(0o007)
    missing = [name for name in _REQUIRED if not os.environ.get(name)]
    if missing:
        print(f"harmony_sidecar: not set: {', '.join(missing)}", file=sys.stderr)
        return 2
    socket_path = Path(os.environ[environment.SOCKET])
    try:
        sidecar = Sidecar(
            job=os.environ[environment.JOB],
            worker=int(os.environ.get(environment.WORKER_INDEX, "0")),
            socket_path=socket_path,
            node_store=Path(os.environ[environment.NODE_STORE]),
            plan_path=Path(os.environ[environment.NODE_PLAN]),
        )
        server = SidecarHttpServer(
            sidecar,
            os.environ.get(environment.HTTP_HOST, "127.0.0.1"),
            int(os.environ.get(environment.HTTP_PORT, "0")),
        )
        sidecar.start()
        server.publish_port(socket_path)
    except (OSError, ValueError) as error:
        print(f"harmony_sidecar: {error}", file=sys.stderr)
        return 1
    # The permit threads must get the interpreter soon, whatever an HTTP answer is busy with.
    sys.setswitchinterval(0.0001)
    gc.collect()
    gc.freeze()
    threading.Thread(target=server.serve_forever, args=(3600,), name="http", daemon=True).start()
    stopping.wait()
    sidecar.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
