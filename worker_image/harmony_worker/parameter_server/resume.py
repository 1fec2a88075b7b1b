"""Where a job starts: workers and servers agree on one state before the first iteration.

Every server must hold the same generation of the job. Where one does not, the chief (worker 0)
makes a new generation, of the newest snapshot that all of them have or of its own first values,
and the other workers wait for it.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.link import Link, RolledBackError
from harmony_worker.parameter_server.server_links import ServerLinks
from harmony_worker.parameter_server.wire import Header, Kind

POLL_SECONDS: Final = 0.02
"""Between two looks at whether the chief has initialised every server."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ResumePoint:
    """Where this worker starts."""

    iteration: int
    """The iteration to run next; its SYNC also commits what a predecessor left complete."""
    worker_state: bytes
    """What this worker index pushed as its state with the iteration before; b"" if nothing."""


def agree(servers: ServerLinks, values: Sequence[memoryview], *, chief: bool) -> ResumePoint:
    """Connect to every server and agree where to start.

    In a fresh job the chief's present `values`, by server, go to the servers, and the other
    workers wait for that. Where a server has lost its state, the chief takes all of them back
    to the newest snapshot that they have in common, or to the start.
    """
    while True:
        statuses = servers.ask_all(lambda _, link: link.status())
        generations = {int(status["generation"]) for status in statuses}
        if len(generations) == 1 and 0 not in generations:
            break
        if chief:
            _lead(servers, values, statuses, max(time.time_ns(), max(generations) + 1))
        else:
            time.sleep(POLL_SECONDS)
    for link in servers.links:
        link.generation = int(statuses[0]["generation"])
    iteration = min(int(status["pushed"]) for status in statuses)
    first = servers.links[0]
    return ResumePoint(iteration, first.request(lambda c: _worker_state(c, first, iteration)))


def _lead(
    servers: ServerLinks,
    values: Sequence[memoryview],
    statuses: Sequence[Mapping[str, Any]],
    generation: int,
) -> None:
    common = set.intersection(*(set(status["snapshots"]) for status in statuses))
    if not common and any(status["generation"] for status in statuses):
        log.warning("the servers have no snapshot in common: back to iteration 0")

    def lead(server: int, link: Link) -> None:
        def send(connection: socket.socket) -> None:
            if common:
                header = Header(Kind.RESTORE, generation=generation, iteration=max(common))
                wire.send_message(connection, header)
            else:
                header = Header(Kind.INITIAL, generation=generation)
                wire.send_message(connection, header, payload=[values[server]])
            link.answer(connection)

        # A snapshot that turns out to be damaged is no longer offered at the next look.
        with contextlib.suppress(RolledBackError):
            link.request(send)

    servers.ask_all(lead)


def _worker_state(connection: socket.socket, link: Link, iteration: int) -> bytes:
    answer = link.ask(connection, Header(Kind.RESUME, iteration=iteration))
    if answer.payload_bytes > wire.MAX_STATE_BYTES:
        raise wire.WireError(f"a worker state of {answer.payload_bytes} bytes")
    return wire.receive_bytes(connection, answer.payload_bytes)
