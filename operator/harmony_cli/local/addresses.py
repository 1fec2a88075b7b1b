"""Where the processes of all jobs of a run listen.

The ports of a run are found in one go, so that no two of its processes get the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harmony_api.job import HarmonyJob
from harmony_cli.local.processes import find_free_ports

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True)
class JobAddresses:
    """`host:port` of one job's processes."""

    workers: tuple[str, ...]
    """For programs whose workers listen; the SDK's do not."""
    servers: tuple[str, ...]
    scheduler: str
    """For programs that need one, beside server 0."""


def assign(
    jobs: Sequence[HarmonyJob], *, worker_host: str = LOOPBACK, server_host: str = LOOPBACK
) -> list[JobAddresses]:
    """Return the addresses of each job. Raises OSError when ports run out."""
    sizes = [(job.spec.workers.least, job.spec.parameter_servers.replicas) for job in jobs]
    ports = iter(find_free_ports(sum(workers + servers + 1 for workers, servers in sizes)))
    return [
        JobAddresses(
            workers=tuple(f"{worker_host}:{next(ports)}" for _ in range(workers)),
            servers=tuple(f"{server_host}:{next(ports)}" for _ in range(servers)),
            scheduler=f"{server_host}:{next(ports)}",
        )
        for workers, servers in sizes
    ]
