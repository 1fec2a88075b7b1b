"""Pull and push of one parameter through a real server, over a plain TCP copy of the same bytes.

Both ends are processes of their own on the loopback, pinned alike: the worker's transfers and
the plain client on the first core, the server and the plain peer on the last. A plain push is
`sendall` and one byte back, when the peer has all of it in a preallocated buffer; a plain pull is
one byte out and the bytes back. Every figure is a ratio of rates: 1 is as fast as the socket.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from harmony_api import environment as names
from harmony_worker.parameter_server.client import ParameterServerClient
from harmony_worker.parameter_server.wire import OPEN_GATE
from harness import Figure, environment, parse_options, report

SIZES = {
    "4kb": 4_000,
    "40kb": 40_000,
    "400kb": 400_000,
    "4mb": 4_000_000,
    "40mb": 40_000_000,
    "400mb": 400_000_000,
}
HOST = "127.0.0.1"


def main() -> None:
    options = parse_options(__doc__, rounds=5)
    sizes = {name: size for name, size in SIZES.items() if not options.quick or size < 4e8}
    cores = sorted(os.sched_getaffinity(0))
    near, far = cores[0], cores[-1]
    figures = []
    for name, size in sizes.items():
        repetitions = max(3 if options.quick else 5, min(300, int(40e6 / size)))
        with plain_peer(size, far) as connection, harmony_client(size, near, far) as client:
            os.sched_setaffinity(0, {near})
            times = measure(connection, client, size, repetitions, options.rounds)
            os.sched_setaffinity(0, cores)
        for direction in ("push", "pull"):
            pairs = times[direction]
            ratios = [plain / harmony for plain, harmony in pairs]
            rates = [size / harmony for _, harmony in pairs]
            figures += [
                Figure.of(f"parameter_server.{direction}_over_socket_{name}", ratios),
                Figure.of(f"parameter_server.{direction}_{name}_rate", rates, "B/s"),
            ]
    report("parameter_server", figures, options, where=environment("torch"))


def measure(
    connection: socket.socket,
    client: ParameterServerClient,
    size: int,
    repetitions: int,
    rounds: int,
) -> dict[str, list[tuple[float, float]]]:
    """Return, by direction and round, the median seconds of a plain copy and of Harmony's."""
    memory = memoryview(bytearray(size))
    iteration = client.initialise().iteration
    client.sync(iteration)
    result: dict[str, list[tuple[float, float]]] = {"push": [], "pull": []}
    for index in range(rounds + 1):
        samples: dict[str, list[float]] = {}
        for _ in range(repetitions):
            for label, action in (
                ("plain push", lambda: plain_push(connection, memory)),
                ("push", lambda: client.push(iteration, OPEN_GATE)),  # noqa: B023
                ("plain pull", lambda: plain_pull(connection, memory)),
                ("pull", lambda: client.pull(OPEN_GATE)),
            ):
                samples.setdefault(label, []).append(seconds(action))
                if label == "push":
                    iteration += 1
                    client.sync(iteration)
        if index == 0:
            continue  # pages are touched for the first time
        for direction, pairs in result.items():
            plain = statistics.median(samples[f"plain {direction}"])
            pairs.append((plain, statistics.median(samples[direction])))
    return result


def seconds(action: Callable[[], object]) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def plain_push(connection: socket.socket, memory: memoryview) -> None:
    connection.sendall(b"<")
    connection.sendall(memory)
    connection.recv(1)


def plain_pull(connection: socket.socket, memory: memoryview) -> None:
    connection.sendall(b">")
    receive(connection, memory)


def receive(connection: socket.socket, memory: memoryview) -> None:
    position = 0
    while position < len(memory):
        position += connection.recv_into(memory[position:])


def peer(size: int, core: int) -> None:
    """Be the far end of the plain copy: `<` announces a push, `>` asks for a pull."""
    os.sched_setaffinity(0, {core})
    memory = memoryview(bytearray(size))
    with socket.create_server((HOST, 0)) as listener:
        print(listener.getsockname()[1], flush=True)
        connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with connection:
        while request := connection.recv(1):
            if request == b"<":
                receive(connection, memory)
                connection.sendall(b".")
            else:
                connection.sendall(memory)


@contextmanager
def plain_peer(size: int, core: int) -> Iterator[socket.socket]:
    process = subprocess.Popen(
        [sys.executable, __file__, "peer", str(size), str(core)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_connection((HOST, port)) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            yield connection
    finally:
        process.kill()
        process.wait()


@contextmanager
def harmony_client(size: int, near: int, far: int) -> Iterator[ParameterServerClient]:
    with socket.create_server((HOST, 0)) as taken:
        address = f"{HOST}:{taken.getsockname()[1]}"
    described = {
        names.JOB: "benchmark",
        names.WORKERS: "1",
        names.SERVER_INDEX: "0",
        names.SERVERS: address,
    }
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {far})  # inherited by the server
    process = subprocess.Popen(
        [sys.executable, "-m", "harmony_worker.parameter_server"],
        env={**os.environ, **described},
        stderr=subprocess.DEVNULL,
    )
    os.sched_setaffinity(0, cores)
    parameter = torch.nn.Parameter(torch.zeros(size // 4))
    parameter.grad = torch.zeros_like(parameter)
    client = ParameterServerClient(
        servers=[address],
        job="benchmark",
        worker=0,
        workers=1,
        parameters={"parameter": parameter},
        optimizer_class=torch.optim.SGD,
        optimizer=torch.optim.SGD([parameter], lr=0.1),
        transfer_cpus=frozenset({near}),
    )
    try:
        yield client
        client.close()
    finally:
        process.kill()
        process.wait()


if __name__ == "__main__":
    if sys.argv[1:2] == ["peer"]:
        peer(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
