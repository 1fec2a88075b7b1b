"""One connection to one server, that comes back by itself.

A request is sent again from its beginning when the connection breaks, which every request
allows: a server drops a push that it has, and answers a commit that it knows. What a
reconnection cannot mend is raised: the server is at another generation, or stays away.
"""

import contextlib
import logging
import socket
import time
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.wire import Header, Kind, WireError

PATIENCE_SECONDS: Final = 120.0
"""How long a server may be away."""
LOG_SECONDS: Final = 5.0
CONNECT_SECONDS: Final = 5.0
WELCOME_SECONDS: Final = 30.0
"""The first answer of a server, which may be allocating or restoring."""
SHORTEST_PAUSE_SECONDS: Final = 0.02
LONGEST_PAUSE_SECONDS: Final = 0.25
ATTEMPTS: Final = 20
"""How often one request is sent, when the server answers but each time breaks off."""

Answer = TypeVar("Answer")
log = logging.getLogger(__name__)


class RolledBackError(Exception):
    """The servers are at another point in time than this process: start it again in place."""


class ReplacedError(Exception):
    """A newer process with the same worker index has taken this worker's place."""


class ServerLostError(Exception):
    """A server did not come back within PATIENCE_SECONDS, or breaks off again and again."""


class ServerRefusedError(Exception):
    """A server answered with an error; the message is the server's."""


class Link:
    """A worker's connection to one server. One thread at a time, but for `abort`."""

    def __init__(self, address: str, hello: Mapping[str, Any]) -> None:
        self._address = address
        self._hello = dict(hello)
        self._connection: socket.socket | None = None
        self._aborted = False
        self._met = False
        self.generation = 0
        """Of the parameters that this process works on; 0 until all workers agree on one."""

    def request(self, action: Callable[[socket.socket], Answer]) -> Answer:
        """Run one request on the connection, again from its beginning whenever that breaks.

        Raises RolledBackError, ReplacedError, ServerLostError or ServerRefusedError.
        """
        for attempt in range(ATTEMPTS):
            connection = self._connection or self._reconnect()
            try:
                return action(connection)
            except (OSError, WireError) as error:
                if self._aborted:
                    raise RolledBackError from None
                log.warning("lost server %s: %s", self._address, error)
                self._disconnect()
                time.sleep(min(LONGEST_PAUSE_SECONDS, attempt * SHORTEST_PAUSE_SECONDS))
        raise ServerLostError(f"server {self._address} broke off {ATTEMPTS} times")

    def ask(self, connection: socket.socket, header: Header, meta: bytes = b"") -> Header:
        """Send a request without payload and return its answer's header."""
        wire.send_message(connection, header._replace(generation=self.generation), meta)
        return self.answer(connection)

    def answer(self, connection: socket.socket) -> Header:
        """Return the header of an answer, whose meta and payload are next on the connection."""
        header = wire.receive_header(connection)
        if header.kind == Kind.OK:
            return header
        if header.kind == Kind.ROLLED_BACK:
            raise RolledBackError
        if header.kind == Kind.REPLACED:
            raise ReplacedError("a newer process has taken this worker's place")
        if header.kind == Kind.REFUSED:
            reason = wire.receive_json(connection, header).get("reason")
            raise ServerRefusedError(f"server {self._address}: {reason}")
        raise WireError(f"an answer of kind {header.kind}")

    def status(self) -> dict[str, Any]:
        """Return the server's generation, its snapshots, and this worker's completed pushes."""

        def ask(connection: socket.socket) -> dict[str, Any]:
            return wire.receive_json(connection, self.ask(connection, Header(Kind.STATUS)))

        return self.request(ask)

    def abort(self) -> None:
        """Make a request that another thread has running fail with RolledBackError."""
        self._aborted = True
        if self._connection is not None:
            with contextlib.suppress(OSError):
                self._connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection; the server keeps everything."""
        self._disconnect()

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _reconnect(self) -> socket.socket:
        begin = said = time.monotonic()
        pause = SHORTEST_PAUSE_SECONDS
        while True:
            if self._aborted:
                raise RolledBackError
            try:
                return self._connect()
            except (OSError, WireError) as error:
                now = time.monotonic()
                if now - begin > PATIENCE_SECONDS:
                    raise ServerLostError(
                        f"server {self._address} was away for {PATIENCE_SECONDS:.0f} s: {error}"
                    ) from error
                if now - said > LOG_SECONDS:
                    said = now
                    log.warning(
                        "waiting for server %s since %.0f s: %s", self._address, now - begin, error
                    )
                time.sleep(pause)
                pause = min(LONGEST_PAUSE_SECONDS, 2 * pause)

    def _connect(self) -> socket.socket:
        host, _, port = self._address.rpartition(":")
        connection = socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS)
        self._connection = connection  # so that `abort` reaches it
        try:
            wire.tune(connection)
            connection.settimeout(WELCOME_SECONDS)
            hello = {**self._hello, "fresh": not self._met}
            wire.send_json(connection, Header(Kind.HELLO), hello)
            status = wire.receive_json(connection, self.answer(connection))
            connection.settimeout(None)
            if self.generation not in (0, status["generation"]):
                raise RolledBackError
        except BaseException:
            self._disconnect()
            raise
        self._met = True
        return connection
