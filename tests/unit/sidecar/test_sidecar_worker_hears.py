"""Whatever a worker hears from its sidecar, and however much at once: it takes it in order."""

import contextlib
import struct
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted_sidecar import ScriptedSidecar, grant
from sidecar_processes import wait_until

from harmony_api.worker_protocol import (
    GRANT,
    MAX_FRAME_BYTES,
    Epoch,
    GrantFlags,
    MessageType,
    Phase,
    encode,
)
from harmony_worker.permits import PermitClient

STANDING = GrantFlags.STANDING
RECALL = encode(MessageType.RECALL)
GARBAGE = [
    struct.pack("<H", 0),
    struct.pack("<H", MAX_FRAME_BYTES + 1),
    struct.pack("<HB", 1, MessageType.GRANT),
]


@contextlib.contextmanager
def connected() -> Iterator[tuple[ScriptedSidecar, PermitClient]]:
    sidecar = ScriptedSidecar()
    client = PermitClient.connect(sidecar.path)
    yield sidecar, client
    client.close()
    sidecar.close()


def begun_or_asked(sidecar: ScriptedSidecar) -> list[int]:
    return [k for k, _ in sidecar.said if k in (MessageType.ACQUIRE, MessageType.BEGIN)]


def run(client: PermitClient, iteration: int = 0) -> None:
    client.release(client.acquire(Phase.COMP, iteration))


def test_a_recall_that_is_read_together_with_its_grant_ends_the_leave() -> None:
    with connected() as (sidecar, client):
        sidecar.answers += [grant(5, flags=STANDING) + RECALL, grant(6)]
        run(client)
        run(client)
        assert begun_or_asked(sidecar) == [MessageType.ACQUIRE, MessageType.ACQUIRE]


def test_a_leave_ends_with_the_arbiter_that_gave_it() -> None:
    with connected() as (sidecar, client):
        sidecar.answers += [grant(5, flags=STANDING), grant(6, epoch=2)]
        run(client)
        assert client.acquire(Phase.COMP, 1).turn == 0
        sidecar.board.begin_epoch(Epoch(2))
        assert client.acquire(Phase.COMP, 2).turn == 6


def test_a_worker_with_a_leave_whose_sidecar_is_silent_ends_no_phase_that_nobody_knows_of() -> None:
    with connected() as (sidecar, client):
        sidecar.answers.append(grant(5, flags=STANDING))
        run(client)
        assert not client.should_stop(), "nobody answers within the bound"
        said = len(sidecar.said)
        run(client)
        client.close()
        wait_until(lambda: sidecar.connection is None or sidecar.connection.fileno() == -1)
        assert sidecar.said[said:] in ([], [(MessageType.SHOULD_STOP, ())])


noise = st.one_of(
    st.sampled_from(
        [
            RECALL,
            RECALL,
            encode(MessageType.WAIT),
            encode(MessageType.REVOKED, 2**64 - 1),
            encode(MessageType.ACQUIRE, 1, 9, 0),
            struct.pack("<HB", 1, 200),
            encode(MessageType.WELCOME, 1, 0),
            grant(0, flags=STANDING, stale=True),
        ]
    ),
    st.integers(1000, 2000).map(lambda turn: grant(turn, flags=STANDING, stale=True)),
)
noises = st.lists(noise, max_size=4)
steps = st.one_of(
    st.tuples(st.just("answer"), noises, st.sampled_from([0, STANDING]), noises),
    st.tuples(st.just("garbage"), noises, st.sampled_from(GARBAGE)),
    st.tuples(st.just("unasked"), noises),
    st.tuples(st.just("stop?"), noises),
    st.tuples(st.just("successor")),
)


@settings(max_examples=150, deadline=None)
@given(script=st.lists(steps, max_size=12))
def test_a_phase_begins_without_an_answer_only_while_the_leave_stands(script: list[tuple]) -> None:
    """The leave: the last GRANT had it, no RECALL came after it, and its arbiter still rules."""
    expected: list[int] = []
    given_up: set[int] = set()
    epoch, leave, turn = 1, 0, 1

    def hear(frames: list[bytes]) -> None:
        nonlocal leave
        if RECALL in frames:
            leave = 0
        given_up.update(GRANT.unpack(f)[3] for f in frames if f[2] == MessageType.GRANT)

    with connected() as (sidecar, client):
        for kind, *rest in [*script, ("stop?", [])]:
            if kind == "successor":
                epoch += 1
                sidecar.board.begin_epoch(Epoch(epoch))
                continue
            if kind == "unasked":
                wait_until(lambda: sidecar.connection is not None)
                assert sidecar.connection is not None
                sidecar.connection.sendall(b"".join(rest[0]))
                hear(rest[0])
                continue
            if kind == "stop?":
                sidecar.answers.append(b"".join(rest[0]) + encode(MessageType.STOP, 0))
                hear(rest[0])
                assert not client.should_stop()
                continue
            if leave == epoch:
                began = client.acquire(Phase.COMP, 0)
                client.release(began)
                assert (began.turn, began.coordinated) == (0, True)
                expected.append(MessageType.BEGIN)
                continue
            turn += 1
            before, flags, after = rest[0], 0, []
            if kind == "garbage":
                sidecar.answers.append(b"".join([*before, rest[1]]))
                expected.append(MessageType.ACQUIRE)
                given_up.clear()  # whatever is unread is lost with the connection
            else:
                flags, after = rest[1:]
            answer = [*before, grant(turn, epoch=epoch, flags=flags), *after]
            sidecar.answers.append(b"".join(answer))
            given = client.acquire(Phase.COMP, 0)
            client.release(given)
            assert given.turn == turn
            expected.append(MessageType.ACQUIRE)
            hear(before)
            leave = epoch if flags else 0
            hear(after)
        client.end()
        wait_until(lambda: any(kind == MessageType.END for kind, _ in sidecar.said))
        assert begun_or_asked(sidecar) == expected
        released = {fields[0] for kind, fields in sidecar.said if kind == MessageType.RELEASE}
        assert {turn for turn in given_up if turn} <= released


@pytest.mark.parametrize("answer", [b"", *GARBAGE, encode(MessageType.STOP, 1)])
def test_whatever_comes_in_place_of_a_grant_does_not_stop_the_training(answer: bytes) -> None:
    with connected() as (sidecar, client):
        sidecar.answers += [answer, answer]
        assert not client.acquire(Phase.COMP, 0).coordinated
