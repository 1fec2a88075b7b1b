"""Sidecars that are killed or stopped while their workers go on."""

import signal

import pytest
from sidecar_kill_tools import (
    HOLD,
    LONG_SECONDS,
    OUTLIVE,
    Asking,
    MakeNode,
    PlainClient,
    StartWorker,
    many_uncoordinated_turns,
    two_jobs,
)
from sidecar_processes import wait_until

from harmony_api.turn_checks import overlapping_compute_turns
from harmony_api.worker_protocol import MessageType, Phase

pytestmark = pytest.mark.kills


@pytest.mark.parametrize("stopped_is_arbiter", [True, False])
def test_a_sidecar_stopped_beyond_a_lease_does_not_claim_more_than_the_lease(
    make_node: MakeNode, stopped_is_arbiter: bool
) -> None:
    _, arbiter, member = two_jobs(make_node)
    stopped, other = (arbiter, member) if stopped_is_arbiter else (member, arbiter)
    holder, client = stopped.connect(), other.connect()
    held = holder.acquire(Phase.COMP, 0)
    stopped.stop()
    holder.release(held)
    grant = Asking(client).result()
    assert grant.coordinated
    client.release(grant)
    stopped.signal(signal.SIGCONT)
    wait_until(stopped.turns)
    assert stopped.turns()[-1].ended_by == "Lease"
    assert overlapping_compute_turns(stopped.turns() + other.turns()) == []


def test_a_worker_outlives_its_sidecar_and_keeps_its_permit(
    make_node: MakeNode, start_worker: StartWorker
) -> None:
    _, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    worker = start_worker(member, OUTLIVE)
    assert worker.next_line() == "holding"
    asking = Asking(arbiter.connect())
    member.kill()
    assert worker.next_line() == "the arbiter stands in"
    assert asking.answer is None, "its worker computes on"
    worker.say("release")
    assert worker.next_line() == "released"
    assert asking.result().coordinated


def test_a_worker_that_dies_after_its_sidecar_frees_its_permit(
    make_node: MakeNode, start_worker: StartWorker
) -> None:
    _, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    worker = start_worker(member, HOLD)
    worker.next_line()
    asking = Asking(arbiter.connect())
    member.kill()
    worker.process.kill()
    assert asking.result().coordinated


def test_a_worker_goes_on_without_its_sidecar_and_returns_to_a_restarted_one(
    make_node: MakeNode,
) -> None:
    _, _, member = two_jobs(make_node)
    client = member.connect()
    client.release(client.acquire(Phase.COMP, 0))
    member.kill()
    many_uncoordinated_turns(client)
    member.start()
    wait_until(lambda: client.acquire(Phase.COMP, 0).coordinated)


def test_a_worker_takes_its_permit_along_to_a_restarted_sidecar(make_node: MakeNode) -> None:
    _, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    before = PlainClient(member)
    before.say(MessageType.ACQUIRE, 1, Phase.COMP, 0)
    _, turn, _, _ = before.hear(MessageType.GRANT)
    member.kill()
    member.start()
    after = PlainClient(member, Phase.COMP, int(turn))
    asking = Asking(arbiter.connect())
    wait_until(lambda: arbiter.state().waiting_for == "COMP")
    assert member.state().doing == "COMP"
    assert asking.answer is None
    after.say(MessageType.RELEASE, int(turn), 0)
    assert asking.result().coordinated
    for client in (before, after):
        client.socket.close()


def test_a_worker_that_claims_a_turn_it_does_not_hold_is_told_so(make_node: MakeNode) -> None:
    _, _, member = two_jobs(make_node)
    client = PlainClient(member, Phase.COMP, 12345)
    assert client.hear(MessageType.REVOKED) == (12345,)
    client.socket.close()


def test_a_stopped_sidecar_holds_its_worker_up_for_the_bound_only(make_node: MakeNode) -> None:
    _, _, member = two_jobs(make_node)
    client = member.connect()
    client.release(client.acquire(Phase.COMP, 0))
    member.stop()
    many_uncoordinated_turns(client)
    member.signal(signal.SIGCONT)
    grant = wait_until(lambda: (grant := client.acquire(Phase.COMP, 0)).coordinated and grant)
    client.release(grant)


def test_a_job_alone_outlives_its_sidecar_and_returns_to_a_restarted_one(
    make_node: MakeNode,
) -> None:
    sidecar = make_node("a/0").add("a")
    client = sidecar.connect()
    while client.acquire(Phase.COMP, 0).turn:
        pass
    sidecar.kill()
    many_uncoordinated_turns(client)
    client.synced(1, 0, 0)
    sidecar.start()
    wait_until(lambda: client.acquire(Phase.COMP, 1).turn)
    assert "closed" not in sidecar.log_path.read_text(), "what is unsent goes behind the HELLO"


def test_a_job_alone_takes_turns_again_when_its_sidecar_was_stopped_while_another_joined(
    make_node: MakeNode,
) -> None:
    node = make_node("a/0")
    alone = node.add("a")
    client = alone.connect()
    while client.acquire(Phase.COMP, 0).turn:
        pass
    wait_until(lambda: alone.state().doing == "COMP")
    alone.stop()
    client.release(client.acquire(Phase.PUSH, 0))
    joined = node.add("b")
    other = joined.connect()
    wait_until(lambda: joined.state().arbiter)
    assert other.acquire(Phase.COMP, 0).epoch == 2
    asking = Asking(client)
    alone.signal(signal.SIGCONT)
    wait_until(lambda: alone.state().epoch == 2)
    wait_until(lambda: alone.state().waiting_for == "COMP")
    assert asking.answer is None
    other.end()
    assert asking.result().epoch == 2
    assert overlapping_compute_turns(alone.turns() + joined.turns()) == []
    unknown = alone.turns()[-1]
    assert (unknown.phase, unknown.turn, unknown.coordinated) == ("PUSH", 0, False)
    assert alone.state().uncoordinated_turns == 1
