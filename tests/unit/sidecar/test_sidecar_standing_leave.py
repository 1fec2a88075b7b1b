"""A worker that is alone begins without waiting, and what becomes of it when it is not any more."""

from collections.abc import Callable

from sidecar_kill_tools import PlainClient
from sidecar_processes import Node, SidecarProcess, wait_until

from harmony_api.sidecar_state import TurnRecord
from harmony_api.worker_protocol import GrantFlags, MessageType, Phase
from harmony_worker.permits import PermitClient

MakeNode = Callable[..., Node]
LONG_SECONDS = 60.0


def with_leave(sidecar: SidecarProcess) -> PlainClient:
    """A worker that has just run a PULL, and was told that it is alone."""
    worker = PlainClient(sidecar)
    worker.say(MessageType.ACQUIRE, 1, Phase.PULL, 0)
    _, turn, _, flags = worker.hear(MessageType.GRANT)
    assert int(flags) & GrantFlags.STANDING
    worker.say(MessageType.RELEASE, int(turn), 0)
    return worker


def joined_and_computing(node: Node) -> PermitClient:
    client = node.add("b").connect()
    assert client.acquire(Phase.COMP, 0).coordinated
    return client


def compute_turns(sidecar: SidecarProcess, count: int) -> list[TurnRecord]:
    """The COMP turns of a sidecar, once there are so many."""

    def find() -> list[TurnRecord]:
        turns = [turn for turn in sidecar.turns() if turn.phase == "COMP"]
        return turns if len(turns) == count else []

    return wait_until(find)


def test_a_worker_that_missed_a_recall_is_told_again_and_the_overlap_is_on_record(
    make_node: MakeNode,
) -> None:
    node = make_node("a/0", compute_seconds=LONG_SECONDS)
    first = node.add("a")
    node.arbiter()
    worker = with_leave(first)
    neighbour = joined_and_computing(node)
    worker.hear(MessageType.RECALL)
    worker.say(MessageType.BEGIN, Phase.COMP, 1)
    worker.hear(MessageType.RECALL)
    wait_until(lambda: first.state().doing == "COMP")
    neighbour.close()
    (its,) = compute_turns(node.sidecars["b/0"], 1)
    wait_until(lambda: first.state().uncoordinated_turns == 1)
    worker.say(MessageType.RELEASE, 0, 0)
    before, after = compute_turns(first, 2)
    assert (before.turn, before.coordinated) == (0, False)
    assert its.start_ns < before.start_ns < its.end_ns <= before.end_ns
    assert after.turn
    assert after.coordinated
    assert before.end_ns == after.start_ns
    assert all(turn.requested_ns == turn.start_ns for turn in (before, after)), "nothing waited"


def test_a_begun_phase_that_never_gets_a_turn_is_on_record_as_uncoordinated(
    make_node: MakeNode,
) -> None:
    node = make_node("a/0", compute_seconds=LONG_SECONDS)
    first = node.add("a")
    node.arbiter()
    worker = with_leave(first)
    neighbour = joined_and_computing(node)
    worker.say(MessageType.BEGIN, Phase.COMP, 7)
    wait_until(lambda: first.state().doing == "COMP")
    worker.say(MessageType.RELEASE, 0, 0)
    (turn,) = compute_turns(first, 1)
    assert (turn.iteration, turn.turn, turn.coordinated) == (7, 0, False)
    assert first.state().uncoordinated_turns == 1
    neighbour.close()


def test_a_leave_ends_when_another_sidecar_claims_its_worker(make_node: MakeNode) -> None:
    node = make_node("a/0", compute_seconds=LONG_SECONDS)
    first = node.add("a")
    node.arbiter()
    worker = with_leave(first)
    other = SidecarProcess(
        "a",
        0,
        node.folder,
        first.environment | {"HARMONY_SOCKET": str(node.folder / "claims.sock")},
    ).start()
    try:
        claiming = other.connect()
        worker.hear(MessageType.RECALL)
        assert claiming.acquire(Phase.COMP, 0).coordinated
        claiming.end()
        worker.say(MessageType.ACQUIRE, 2, Phase.COMP, 1)
        assert worker.hear(MessageType.GRANT)[0] == 2
    finally:
        other.kill()


def test_the_pause_of_a_transfer_that_outlived_its_lease_is_no_cost(make_node: MakeNode) -> None:
    sidecar = make_node("a/0").add("a")
    worker = PlainClient(sidecar)
    for iteration in range(2 + 3):
        for number, phase in enumerate((Phase.PULL, Phase.COMP, Phase.PUSH), 10 * iteration):
            worker.say(MessageType.ACQUIRE, number, phase, iteration)
            _, turn, _, _ = worker.hear(MessageType.GRANT)
            if phase is Phase.PULL and iteration >= 2:
                worker.hear(MessageType.REVOKED)
                worker.say(MessageType.PAUSED, 2_000_000_000)
            worker.say(MessageType.RELEASE, int(turn), 0)
    profile = wait_until(lambda: sidecar.state().profile)
    assert profile.pull_microseconds < 2_000_000
