"""`python -m harmony_worker.parameter_server`: one server, described by its environment."""

import logging
import os
import sys
from pathlib import Path

from harmony_api import environment
from harmony_worker.termination import end_on_sigterm

DEFAULT_SNAPSHOT_INTERVAL_SECONDS = 600.0


def main() -> int:
    """Run the server; returns its exit code."""
    # First of all, because torch takes seconds to load.
    end_on_sigterm()
    import torch

    from harmony_worker.parameter_server.optimizers import build
    from harmony_worker.parameter_server.server import serve
    from harmony_worker.parameter_server.snapshot_schedule import SnapshotSchedule
    from harmony_worker.parameter_server.snapshots import SnapshotStore

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", stream=sys.stderr)
    try:
        job = os.environ[environment.JOB]
        server = int(os.environ[environment.SERVER_INDEX])
        address = os.environ[environment.SERVERS].split(",")[server]
        workers = int(os.environ[environment.WORKERS])
        folder = os.environ.get(environment.SNAPSHOT_DIRECTORY)
        interval = os.environ.get(environment.SNAPSHOT_INTERVAL_SECONDS)
        store = SnapshotStore(Path(folder)) if folder else None
        seconds = float(interval) if interval else DEFAULT_SNAPSHOT_INTERVAL_SECONDS
    except KeyError as error:
        print(f"a parameter server needs {error.args[0]} in its environment", file=sys.stderr)
        return 2
    except (IndexError, ValueError, OSError) as error:
        print(f"a parameter server cannot start: {error}", file=sys.stderr)
        return 2
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.sparse.check_sparse_tensor_invariants.disable()
    # torch loads many modules with the first optimizer: now, not when the workers wait for it.
    build("SGD", [{"params": [torch.empty(0)]}])
    try:
        return serve(job, server, address, workers, SnapshotSchedule(store, seconds))
    except OSError as error:
        print(f"a parameter server cannot listen on {address}: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
