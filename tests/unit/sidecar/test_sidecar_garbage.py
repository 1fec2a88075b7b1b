"""Whatever bytes arrive on a socket: that connection is closed, and nobody else notices."""

import contextlib
import json
import socket
import struct
from collections.abc import Callable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sidecar_processes import Node, plan_of, wait_until

from harmony_api.worker_protocol import (
    HEADER,
    MAGIC,
    MAX_FRAME_BYTES,
    VERSION,
    FrameReader,
    HelloFlags,
    MessageType,
    Phase,
    ProtocolError,
    encode,
)
from harmony_sidecar.link_messages import JOIN, PLAN
from harmony_worker.permits import PermitClient

HELLO = encode(MessageType.HELLO, MAGIC, VERSION, HelloFlags.NONE, 0, 0)
VALID = [
    HELLO,
    encode(MessageType.ACQUIRE, 1, Phase.COMP, 0),
    encode(MessageType.ACQUIRE, 2, 9, 0),
    encode(MessageType.RELEASE, 2**64 - 1, 2**64 - 1),
    encode(MessageType.SYNCED, 2**64 - 1, 2**64 - 1, 2**64 - 1),
    encode(MessageType.REPORT, 2**64 - 1, 2**64 - 1, float("inf")),
    encode(MessageType.SHOULD_STOP),
    encode(MessageType.END),
    encode(MessageType.BEGIN, Phase.PULL, 2**64 - 1),
    encode(MessageType.BEGIN, Phase.SYNC, 0),
    encode(MessageType.PAUSED, 2**64 - 1),
    encode(MessageType.GRANT, 1, 1, 1, 0),
    struct.pack("<HB", 1, 200),
]

frames = st.one_of(
    st.binary(max_size=40),
    st.sampled_from(VALID),
    st.builds(lambda frame, cut: frame[:cut], st.sampled_from(VALID), st.integers(0, 30)),
    st.builds(lambda length: struct.pack("<H", length) + b"x", st.integers(0, 65535)),
)


GOOD_PLAN = json.dumps(plan_of("good/0", "victim/0", "stranger/0"))
GOOD_JOIN = json.dumps(
    {"member": "stranger/0", "chunked": True, "held": 0, "plan": json.loads(GOOD_PLAN)}
)
bodies = st.one_of(
    st.binary(max_size=40),
    st.sampled_from([GOOD_PLAN, GOOD_JOIN, "{}", "[" * 5000]).map(str.encode),
    st.builds(lambda text, cut: text[:cut].encode(), st.just(GOOD_JOIN), st.integers(0, 400)),
)
link_messages = st.builds(
    lambda kind, body: HEADER.pack(0, kind) + body, st.sampled_from([JOIN, PLAN]), bodies
)


def say_and_hear_the_end(kind: int, path: str, chunks: list[bytes]) -> None:
    """Send the chunks, end, and read until the other side has hung up too."""
    with socket.socket(socket.AF_UNIX, kind) as connection:
        connection.settimeout(10)
        connection.connect(path)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            for chunk in chunks:
                connection.sendall(chunk)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(4096):
                pass


@pytest.fixture(scope="module")
def neighbours(make_node_for_module: Callable[..., Node]) -> Iterator[tuple[Node, PermitClient]]:
    node = make_node_for_module("victim/0", "good/0")
    node.add("good")
    node.arbiter()
    node.add("victim")
    client = node.sidecars["good/0"].connect()
    yield node, client
    client.close()
    for sidecar in node.sidecars.values():
        assert "Traceback" not in sidecar.log_path.read_text()
        assert sidecar.state().job == sidecar.job


def assert_undisturbed(client: PermitClient) -> None:
    for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
        grant = client.acquire(phase, 0)
        assert grant.coordinated
        client.release(grant)


many = settings(
    max_examples=120,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@many
@given(chunks=st.lists(frames, max_size=8), greeted=st.booleans())
def test_garbage_on_a_workers_socket_disturbs_nobody(
    neighbours: tuple[Node, PermitClient], chunks: list[bytes], greeted: bool
) -> None:
    node, client = neighbours
    path = str(node.sidecars["victim/0"].socket_path)
    say_and_hear_the_end(socket.SOCK_STREAM, path, [HELLO, *chunks] if greeted else chunks)
    assert_undisturbed(client)


@many
@given(chunks=st.lists(frames.filter(bool), max_size=5))
def test_garbage_on_the_arbiters_socket_disturbs_nobody(
    neighbours: tuple[Node, PermitClient], chunks: list[bytes]
) -> None:
    node, client = neighbours
    (path,) = (node.store / "election").glob("arbiter-*.sock")
    say_and_hear_the_end(socket.SOCK_SEQPACKET, str(path), chunks)
    assert_undisturbed(client)


@many
@given(
    join=st.one_of(st.just(HEADER.pack(0, JOIN) + GOOD_JOIN.encode()), link_messages),
    descriptors=st.sampled_from([0, 1, 2, 2]),
    rest=st.lists(st.one_of(link_messages, frames.filter(bool)), max_size=4),
)
def test_a_stranger_that_joins_the_arbiter_with_garbage_disturbs_nobody(
    neighbours: tuple[Node, PermitClient], join: bytes, descriptors: int, rest: list[bytes]
) -> None:
    node, client = neighbours
    (path,) = (node.store / "election").glob("arbiter-*.sock")
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        link.settimeout(10)
        link.connect(str(path))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            socket.send_fds(link, [join], [link.fileno()] * descriptors)
            for message in rest:
                link.send(message)
            link.shutdown(socket.SHUT_WR)
            while link.recv(4096):
                pass
    assert_undisturbed(client)


def test_a_victim_of_garbage_serves_its_worker_afterwards(
    neighbours: tuple[Node, PermitClient],
) -> None:
    node, _ = neighbours
    victim = node.sidecars["victim/0"]
    lines = len(victim.log_path.read_text().splitlines())
    say_and_hear_the_end(socket.SOCK_STREAM, str(victim.socket_path), [b"GET / HTTP/1.0\r\n\r\n"])
    wait_until(lambda: len(victim.log_path.read_text().splitlines()) == lines + 1)
    client = victim.connect()
    assert_undisturbed(client)
    client.close()


@given(data=st.lists(st.sampled_from(VALID), max_size=6), cuts=st.lists(st.integers(1, 50)))
def test_frames_are_the_same_however_the_stream_is_cut(data: list[bytes], cuts: list[int]) -> None:
    whole = b"".join(data)
    reader = FrameReader()
    seen = []
    rest = whole
    for cut in cuts:
        seen += reader.feed(rest[:cut])
        rest = rest[cut:]
    seen += reader.feed(rest)
    assert repr(seen) == repr(FrameReader().feed(whole))
    assert len(seen) == len(data)


@given(length=st.one_of(st.just(0), st.integers(MAX_FRAME_BYTES + 1, 65535)))
def test_a_frame_of_impossible_length_ends_the_stream(length: int) -> None:
    with pytest.raises(ProtocolError):
        FrameReader().feed(struct.pack("<H", length))


def test_a_plan_too_long_to_record_leaves_the_worker_uncoordinated(
    make_node: Callable[..., Node],
) -> None:
    """Its neighbours go on under permits, and the log says why, once."""
    node = make_node("a/0", "b/0")
    node.add("a")
    node.arbiter()
    good = node.sidecars["a/0"].connect()
    long = node.folder / "long.json"
    names = [f"device-{number:064}" for number in range(100)]
    long.write_text(json.dumps(node.plan | {"devices": names}))
    bad = node.add("b", plan_path=long)
    client = bad.connect()
    assert not client.acquire(Phase.COMP, 0).coordinated
    assert len(bad.log_path.read_text().splitlines()) < 100
    assert_undisturbed(good)
