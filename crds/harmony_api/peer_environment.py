"""How programs written for ps-lite or TensorFlow find their peers in a Harmony job.

Both read the environment: ps-lite (also MXNet, BytePS) its `DMLC_*` variables, TensorFlow
`TF_CONFIG`. Every process of a job sees the same peers and differs in role and index only.
"""

import json
from collections.abc import Sequence
from typing import Literal


def peer_environment(
    *,
    role: Literal["worker", "server"],
    index: int,
    workers: Sequence[str],
    servers: Sequence[str],
    scheduler: str,
) -> dict[str, str]:
    """Return the variables of one process.

    `workers` and `servers` are the addresses `host:port` of all, by index; there is at least
    one server. `scheduler` is that of the scheduler which ps-lite needs beside them, on the
    host of server 0.
    """
    host, _, port = scheduler.rpartition(":")
    environment = {
        "DMLC_ROLE": role,
        "DMLC_NUM_WORKER": str(len(workers)),
        "DMLC_NUM_SERVER": str(len(servers)),
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": port,
        "TF_CONFIG": json.dumps(
            {
                "cluster": {"worker": list(workers), "ps": list(servers)},
                "task": {"type": "ps" if role == "server" else "worker", "index": index},
            }
        ),
    }
    if role == "worker":
        environment["DMLC_WORKER_ID"] = str(index)
    return environment
