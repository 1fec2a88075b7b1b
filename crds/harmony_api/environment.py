"""Names of the environment variables that Harmony sets in the processes of a job.

The operator, the local runner, the sidecar and the worker must spell them alike. A variable
that is absent means "not under Harmony" and never an error by itself.
"""

from typing import Final

SOCKET: Final = "HARMONY_SOCKET"
"""Path of the Unix socket on which the worker's sidecar listens."""

JOB: Final = "HARMONY_JOB"
"""Name of the job that the process belongs to; for a pod's sidecar `<namespace>/<name>`."""

ROLE: Final = "HARMONY_ROLE"
"""`worker`, `server` or `sidecar`."""

WORKER_INDEX: Final = "HARMONY_WORKER_INDEX"
"""Index of the worker (or of the worker a sidecar serves), from 0."""

WORKERS: Final = "HARMONY_WORKERS"
"""How many workers the job has."""

SERVER_INDEX: Final = "HARMONY_SERVER_INDEX"
"""Index of the parameter server, from 0."""

SERVERS: Final = "HARMONY_SERVERS"
"""Addresses `host:port` of the job's servers, by index, separated by commas."""

ITERATIONS: Final = "HARMONY_ITERATIONS"
"""`spec.iterations`, where the manifest gives it."""

SNAPSHOT_DIRECTORY: Final = "HARMONY_SNAPSHOT_DIRECTORY"
"""Folder in which a server keeps its part of the job's snapshots; absent: none are taken."""

SNAPSHOT_INTERVAL_SECONDS: Final = "HARMONY_SNAPSHOT_INTERVAL_SECONDS"
"""Seconds between two snapshots of a job."""

COMPUTE_CPUS: Final = "HARMONY_COMPUTE_CPUS"
"""CPU slot: the cores on which the worker computes, as a list such as `0,2-3`."""

TRANSFER_CPUS: Final = "HARMONY_TRANSFER_CPUS"
"""CPU slot: the cores for the worker's transfer threads, the sidecars and the servers."""

LOSS_LOG: Final = "HARMONY_LOSS_LOG"
"""File to which the worker appends one JSON line per iteration, with the exact loss; or
`/dev/stdout`, to find them in the pod's log."""

EXAMPLES: Final = "HARMONY_EXAMPLES"
"""Folder of the example programs: set by the image; in a local run the manifest's folder."""

NODE_STORE: Final = "HARMONY_NODE_STORE"
"""Sidecar: the node's shared folder, in which the arbiter is elected."""

NODE_PLAN: Final = "HARMONY_NODE_PLAN"
"""Sidecar: file that holds the node plan as JSON (a downward-API file in a pod)."""

HTTP_PORT: Final = "HARMONY_HTTP_PORT"
"""Sidecar: port of `/metrics`, `/profile` and `/events`; 0 takes a free one."""

HTTP_HOST: Final = "HARMONY_HTTP_HOST"
"""Sidecar: address on which it answers HTTP; absent: 127.0.0.1."""
