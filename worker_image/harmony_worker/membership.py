"""Who this process is within its job, read once from the environment.

Absent variables mean "not under Harmony": a script then runs alone, as worker 0 of 1, with
neither servers nor permits.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harmony_api import environment
from harmony_worker.placement import parse_cpu_list


@dataclass(frozen=True)
class Membership:
    """A worker's place in its job, and where to find its servers and its sidecar."""

    job: str = "local"
    worker: int = 0
    workers: int = 1
    servers: tuple[str, ...] = ()
    """Addresses `host:port` by server index; empty: the optimizer runs in this process."""
    socket: Path | None = None
    """The sidecar's socket; None: phases run without permits."""
    iterations: int | None = None
    loss_log: Path | None = None
    compute_cpus: frozenset[int] = frozenset()
    """Cores for compute; empty: wherever the system puts it."""
    transfer_cpus: frozenset[int] = frozenset()
    """Cores for transfers; empty: wherever the system puts them."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "Membership":
        """Read the variables of `harmony_api.environment`.

        Raises ValueError, naming the variable, for a value that cannot be meant.
        """
        worker = _integer(environ, environment.WORKER_INDEX, 0, minimum=0)
        workers = _integer(environ, environment.WORKERS, 1, minimum=1)
        if worker >= workers:
            raise ValueError(
                f"{environment.WORKER_INDEX}={worker} is not below {environment.WORKERS}={workers}"
            )
        servers = environ.get(environment.SERVERS, "")
        socket = environ.get(environment.SOCKET)
        loss_log = environ.get(environment.LOSS_LOG)
        return cls(
            job=environ.get(environment.JOB, cls.job),
            worker=worker,
            workers=workers,
            servers=tuple(part.strip() for part in servers.split(",") if part.strip()),
            socket=Path(socket) if socket else None,
            iterations=_integer(environ, environment.ITERATIONS, 0, minimum=0) or None,
            loss_log=Path(loss_log) if loss_log else None,
            compute_cpus=_cpus(environ, environment.COMPUTE_CPUS),
            transfer_cpus=_cpus(environ, environment.TRANSFER_CPUS),
        )


def _integer(environ: Mapping[str, str], name: str, default: int, minimum: int) -> int:
    text = environ.get(name)
    if text is None:
        return default
    if not text.isdecimal() or int(text) < minimum:
        raise ValueError(f"{name}={text!r} is not an integer of at least {minimum}")
    return int(text)


def _cpus(environ: Mapping[str, str], name: str) -> frozenset[int]:
    text = environ.get(name)
    try:
        return parse_cpu_list(text) if text else frozenset()
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from error
