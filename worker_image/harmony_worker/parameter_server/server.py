"""The process of one parameter server: its socket, one thread per worker, and its end.

A connection that sends anything but this protocol is closed with one line in the log; nobody
else notices. The process ends with 0 when all workers are done and with 143 on SIGTERM, after a
last snapshot where there is anything to save, and with 1 when an update failed.
"""

import errno
import ipaddress
import logging
import queue
import signal
import socket
import threading
import time
from typing import Final, Literal

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.service import Service, refuse
from harmony_worker.parameter_server.sessions import (
    Hello,
    RefusedError,
    Session,
    SupersededError,
)
from harmony_worker.parameter_server.snapshot_schedule import SnapshotSchedule
from harmony_worker.parameter_server.wire import Header, Kind, WireError

HELLO_SECONDS: Final = 10.0
"""A connection that has not said hello by then is closed."""
GOODBYE_SECONDS: Final = 5.0
"""How long the workers get to close their connections at the end."""
ACCEPT_PAUSE_SECONDS: Final = 0.1
"""After a failed accept, such as for want of file descriptors."""

Ending = Literal["finished", "terminated", "failed"]
EXIT_CODES: Final[dict[Ending, int]] = {"finished": 0, "terminated": 143, "failed": 1}

log = logging.getLogger(__name__)


def serve(job: str, server: int, address: str, workers: int, snapshots: SnapshotSchedule) -> int:
    """Serve `job` on `address` (host:port) until it ends; returns the exit code.

    Raises OSError when the address cannot be bound. Main thread only, for SIGTERM's sake.
    """
    endings: queue.SimpleQueue[Ending] = queue.SimpleQueue()
    signal.signal(signal.SIGTERM, lambda *_: endings.put("terminated"))
    service = Service(
        job,
        server,
        workers,
        snapshots,
        on_all_finished=lambda: endings.put("finished"),
        on_failure=lambda: endings.put("failed"),
    )
    with listen(address) as listener:
        log.info("server %d of job %s listens on %s", server, job, address)
        accepting = threading.Thread(target=accept_workers, args=(listener, service), daemon=True)
        accepting.start()
        ending = endings.get()
    if ending == "finished":
        service.wait_for_goodbyes(GOODBYE_SECONDS)
    if ending != "failed":
        service.snapshot_at_the_end()
    log.info("server %d of job %s: %s", server, job, ending)
    return EXIT_CODES[ending]


def listen(address: str) -> socket.socket:
    """Bind the port of `address`: on that interface if it is an IP address, else on all.

    In a pod the address is a name, and whether it stands for an IPv4 or an IPv6 address is the
    cluster's business.
    """
    host, _, port = address.rpartition(":")
    host = "127.0.0.1" if host == "localhost" else host.strip("[]")
    dual_stack = False
    try:
        ipv6 = ipaddress.ip_address(host).version == 6
    except ValueError:
        host, ipv6 = "", socket.has_dualstack_ipv6()
        dual_stack = ipv6
    return socket.create_server(
        (host, int(port)),
        family=socket.AF_INET6 if ipv6 else socket.AF_INET,
        backlog=128,
        dualstack_ipv6=dual_stack,
    )


def accept_workers(listener: socket.socket, service: Service) -> None:
    """Give every connection a thread, until the listener is shut down."""
    while True:
        try:
            connection, peer = listener.accept()
        except OSError as error:
            if error.errno in (errno.EBADF, errno.EINVAL):
                return
            log.warning("cannot accept a connection: %s", error)
            time.sleep(ACCEPT_PAUSE_SECONDS)
            continue
        where = f"{peer[0]}:{peer[1]}"
        threading.Thread(target=_converse, args=(connection, where, service), daemon=True).start()


def _converse(connection: socket.socket, peer: str, service: Service) -> None:
    who = peer
    try:
        with connection:
            wire.tune(connection)
            session = _meet(connection, service)
            if session is not None:
                who = f"worker {session.worker} at {peer}"
                log.info("%s has connected", who)
                _answer(session, service)
    except WireError as error:
        log.warning("closed the connection from %s, which sent %s", who, error)
    except OSError as error:
        # Probes connect and leave without a word, every few seconds.
        log.log(logging.DEBUG if who == peer else logging.INFO, "%s has left: %s", who, error)
    except Exception:
        log.exception("closed the connection from %s", who)


def _meet(connection: socket.socket, service: Service) -> Session | None:
    connection.settimeout(HELLO_SECONDS)
    header = wire.receive_header(connection, wire.MAX_HELLO_META_BYTES)
    if header.kind != Kind.HELLO or header.payload_bytes:
        raise WireError(f"a message of kind {header.kind} before HELLO")
    hello = wire.receive_json(connection, header)
    connection.settimeout(None)
    try:
        return service.admit(connection, Hello.read(hello))
    except RefusedError as error:
        refuse(connection, str(error))
    except SupersededError:
        wire.send_message(connection, Header(Kind.REPLACED))
    return None


def _answer(session: Session, service: Service) -> None:
    try:
        service.greet(session)
        while True:
            service.handle(session, wire.receive_header(session.connection))
    finally:
        session.left.set()
