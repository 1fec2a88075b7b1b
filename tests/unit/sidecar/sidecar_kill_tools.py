"""Programs, clients and nodes for the tests in which something is killed or stopped."""

import socket
import threading
from collections.abc import Callable

from sidecar_processes import Node, SidecarProcess, WorkerProcess, wait_until

from harmony_api.worker_protocol import (
    MAGIC,
    VERSION,
    FrameReader,
    HelloFlags,
    MessageType,
    Phase,
    encode,
)
from harmony_worker.grant import Grant
from harmony_worker.permits import PermitClient

MakeNode = Callable[..., Node]
StartWorker = Callable[[SidecarProcess, str], WorkerProcess]

HOLD = """
grant = client.acquire(Phase.COMP, 0)
say("holding", grant.coordinated, grant.turn)
time.sleep(600)
"""

OUTLIVE = """
import select
grant = client.acquire(Phase.COMP, 0)
say("holding")
hung_up = select.poll()
hung_up.register(client._socket, select.POLLRDHUP)
hung_up.poll()
say("the arbiter stands in")
sys.stdin.readline()
client.release(grant)
say("released")
sys.stdin.readline()
"""
"""A worker that hears from the arbiter that its sidecar is gone, and computes on."""

LOOP = """
seed, iterations = {seed}, {iterations}
random.seed(seed)
uncoordinated = 0
for iteration in range(iterations):
    for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
        grant = client.acquire(phase, iteration)
        uncoordinated += not grant.coordinated
        time.sleep(random.random() * {longest})
        client.release(grant)
        time.sleep(random.random() * {longest} / 4)
    say(iteration, uncoordinated)
client.end()
"""


LONG_SECONDS = 60.0
"""A profiled phase whose lease outlasts every test, so that nothing is freed by a lease."""


def many_uncoordinated_turns(client: PermitClient) -> None:
    """Would take a minute if each of them waited for an answer."""

    def run() -> None:
        for iteration in range(30):
            grant = client.acquire(Phase.COMP, iteration)
            assert not grant.coordinated
            client.release(grant)
            client.report(iteration, 0, 0.0)
        done.set()

    done = threading.Event()
    threading.Thread(target=run, daemon=True).start()
    wait_until(done.is_set)


class Asking:
    """A request for a permit, made in a thread."""

    def __init__(self, client: PermitClient, phase: Phase = Phase.COMP) -> None:
        self.answer: Grant | None = None
        self._arguments = (client, phase)
        self._thread = threading.Thread(target=self._ask, daemon=True)
        self._thread.start()

    def _ask(self) -> None:
        client, phase = self._arguments
        self.answer = client.acquire(phase, 0)

    def result(self) -> Grant:
        self._thread.join(20)
        assert self.answer is not None, "no answer"
        return self.answer


def two_jobs(
    make_node: MakeNode, *, compute_seconds: float = 0.01
) -> tuple[Node, SidecarProcess, SidecarProcess]:
    """A node whose arbiter is the first of the two sidecars returned."""
    node = make_node("a/0", "b/0", compute_seconds=compute_seconds)
    arbiter = node.add("a")
    node.arbiter()
    return node, arbiter, node.add("b")


class PlainClient:
    """A worker that speaks the protocol itself."""

    def __init__(self, sidecar: SidecarProcess, phase: int = 0, turn: int = 0) -> None:
        self._reader = FrameReader()
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(20)
        self.socket.connect(str(sidecar.socket_path))
        self.say(MessageType.HELLO, MAGIC, VERSION, HelloFlags.NONE, phase, turn)
        self.hear(MessageType.WELCOME)

    def say(self, kind: MessageType, *fields: int) -> None:
        self.socket.sendall(encode(kind, *fields))

    def hear(self, kind: MessageType) -> tuple[int | float, ...]:
        while True:
            data = self.socket.recv(4096)
            assert data, "the sidecar hung up"
            for heard, fields in self._reader.feed(data):
                if heard == kind:
                    return fields
