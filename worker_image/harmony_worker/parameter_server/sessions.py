"""Who is on the other end: the first message of a connection, and the connection's life.

A worker has one connection per server. A newer one of the same worker replaces it; an older
process of that worker, which may only have been stopped for a while, cannot come back.
"""

import contextlib
import socket
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harmony_worker.parameter_server.optimizers import UnsupportedOptimizerError
from harmony_worker.parameter_server.shard import ShardPlan
from harmony_worker.parameter_server.wire import WireError


class RefusedError(Exception):
    """The request cannot be granted; the message goes to the worker."""


class StaleGenerationError(Exception):
    """The worker speaks of another generation than the server's."""


class SupersededError(Exception):
    """A newer connection of the same worker has replaced this one."""


@dataclass(frozen=True)
class Hello:
    """What a worker says first."""

    job: str
    worker: int
    workers: int
    process: int
    """Random number of the worker's process."""
    fresh: bool
    """The process has not been connected before."""
    staleness: int
    plan: ShardPlan

    @staticmethod
    def read(value: Mapping[str, Any]) -> "Hello":
        """Read the meta block of HELLO; raises WireError, or RefusedError for its optimizer."""
        try:
            return Hello(
                job=str(value["job"]),
                worker=int(value["worker"]),
                workers=int(value["workers"]),
                process=int(value["process"]),
                fresh=bool(value["fresh"]),
                staleness=int(value["staleness"]),
                plan=ShardPlan.from_json(value["plan"]),
            )
        except UnsupportedOptimizerError as error:
            raise RefusedError(str(error)) from None
        except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
            raise WireError(f"a HELLO that cannot be read: {error!r}") from None


class Session:
    """One worker's connection."""

    def __init__(self, connection: socket.socket, worker: int, process: int) -> None:
        self.connection = connection
        self.worker = worker
        self.process = process
        self.superseded = False
        self.left = threading.Event()
        """The connection's thread has ended."""

    def supersede(self) -> None:
        """End the connection, whatever its thread is doing with it."""
        self.superseded = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)
