"""Bytes that are not the protocol close one connection and disturb nobody."""

import json
import logging
import socket
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from parameter_server_job import Threads, Worker, plain_training, train_together, wait_until

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.wire import HEADER, MAGIC, Header, Kind

ITERATIONS = 4


@pytest.fixture(autouse=True)
def nothing_unforeseen(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A server that meets an exception it did not expect logs an error."""
    yield
    assert not [each for each in caplog.get_records("call") if each.levelno >= logging.ERROR]


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), 30)


def say_and_hear_the_end(connection: socket.socket, data: bytes) -> bytes:
    """Send everything, then read until the server closes."""
    heard = b""
    try:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(1 << 16):
            heard += piece
    except OSError:  # closed by the server already
        pass
    return heard


def frame(kind: int, meta: bytes = b"", payload: bytes = b"", **fields: int) -> bytes:
    header = Header(kind, meta_bytes=len(meta), payload_bytes=len(payload))._replace(**fields)
    return HEADER.pack(MAGIC, header[0], header[1], 0, *header[2:]) + meta + payload


headers = st.builds(
    frame,
    st.sampled_from([*Kind, 0, 99, 255]),
    st.binary(max_size=40) | st.sampled_from([b"{}", b"[]", b'{"state": -1}', b'{"rows": 7}']),
    st.binary(max_size=200),
    generation=st.integers(0, 2**64 - 1),
    iteration=st.integers(-(2**63), 2**63 - 1),
    flags=st.integers(0, 255),
)
lying_headers = st.builds(
    frame,
    st.sampled_from(list(Kind)),
    meta_bytes=st.integers(0, 2**32 - 1),
    payload_bytes=st.integers(0, 2**64 - 1),
)


@pytest.mark.parametrize(
    "data", [st.binary(max_size=300), headers, lying_headers], ids=["noise", "headers", "lies"]
)
def test_a_stranger_that_sends_garbage_disturbs_nobody(
    servers: Threads, data: st.SearchStrategy[bytes]
) -> None:
    addresses = servers.start(workers=2)
    workers = [Worker(addresses, "SGD", worker=each, workers=2, lr=0.1) for each in (0, 1)]
    workers[0].client.initialise()

    @settings(max_examples=50)
    @given(data)
    def attack(data: bytes) -> None:
        with connect(addresses[0]) as connection:
            say_and_hear_the_end(connection, data)

    attack()
    losses, _ = plain_training(ITERATIONS, 2, "SGD", lr=0.1)
    assert train_together(workers, ITERATIONS) == losses


@pytest.mark.parametrize("data", [headers, lying_headers], ids=["headers", "lies"])
def test_a_worker_that_sends_garbage_after_its_hello_disturbs_nobody(
    servers: Threads, data: st.SearchStrategy[bytes]
) -> None:
    addresses = servers.start(workers=2)
    workers = [Worker(addresses, "SGD", worker=each, workers=2, lr=0.1) for each in (0, 1)]
    workers[0].client.initialise()
    hello = json.dumps({**workers[1].client._servers.links[0]._hello, "fresh": True}).encode()

    @settings(max_examples=50)
    @given(data)
    def attack(data: bytes) -> None:
        with connect(addresses[0]) as connection:
            say_and_hear_the_end(connection, frame(Kind.HELLO, hello) + data)

    attack()
    losses, _ = plain_training(ITERATIONS, 2, "SGD", lr=0.1)
    assert train_together(workers, ITERATIONS) == losses


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


def test_a_hello_of_any_form_is_answered_or_closed(servers: Threads) -> None:
    addresses = servers.start()
    worker = Worker(addresses, "SGD", lr=0.1)
    worker.client.initialise()
    hello = worker.client._servers.links[0]._hello
    paths = [(key,) for key in hello] + [("plan", key) for key in hello["plan"]]

    @settings(max_examples=100)
    @given(st.sampled_from(paths), json_values)
    def attack(path: tuple[str, ...], value: object) -> None:
        changed = {**hello, "fresh": True, "plan": dict(hello["plan"])}
        where = changed if len(path) == 1 else changed["plan"]
        where[path[-1]] = value
        with connect(addresses[0]) as connection:
            say_and_hear_the_end(connection, frame(Kind.HELLO, json.dumps(changed).encode()))

    attack()
    probe = Worker(addresses, "SGD", lr=0.1)
    assert probe.train(ITERATIONS) == plain_training(ITERATIONS, 1, "SGD", lr=0.1)[0][0]


def test_the_log_names_the_peer_and_what_it_sent_in_one_line(
    servers: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    addresses = servers.start()
    with caplog.at_level(logging.INFO), connect(addresses[0]) as connection:
        peer = connection.getsockname()
        say_and_hear_the_end(connection, b"GET / HTTP/1.1\r\nHost: " + b"x" * HEADER.size)
        wait_until(lambda: bool(caplog.records), "the server has logged it")
    lines = [record.getMessage() for record in caplog.records]
    assert lines == [
        f"closed the connection from 127.0.0.1:{peer[1]}, "
        "which sent a message that begins with b'GET '"
    ]


def test_no_memory_is_taken_for_a_length_that_no_message_has() -> None:
    near, far = socket.socketpair()
    with near, far:
        near.sendall(frame(Kind.PUSH, meta_bytes=2**32 - 1))
        with pytest.raises(wire.WireError, match="4294967295 bytes of meta"):
            wire.receive_header(far)
