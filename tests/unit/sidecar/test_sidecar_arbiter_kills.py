"""Arbiters that are killed or stopped while permits are out, or that there never are."""

import fcntl
import signal
from pathlib import Path

import pytest
from sidecar_kill_tools import LONG_SECONDS, Asking, MakeNode, many_uncoordinated_turns, two_jobs
from sidecar_processes import wait_until

from harmony_api.turn_checks import overlapping_compute_turns
from harmony_api.worker_protocol import Phase

pytestmark = pytest.mark.kills


def test_a_successor_knows_what_a_killed_arbiter_had_given_out(make_node: MakeNode) -> None:
    node, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    third = node.add("c")
    holder, client = member.connect(), third.connect()
    held = holder.acquire(Phase.COMP, 0)
    asking = Asking(client)
    wait_until(lambda: third.state().waiting_for == "COMP")
    arbiter.kill()
    node.arbiter()
    wait_until(lambda: member.state().epoch == third.state().epoch == 2)
    assert asking.answer is None
    holder.release(held)
    grant = asking.result()
    assert (grant.coordinated, grant.epoch) == (True, 2)
    assert overlapping_compute_turns(member.turns() + third.turns()) == []


def test_what_the_killed_arbiters_own_worker_held_is_kept_until_it_is_back(
    make_node: MakeNode,
) -> None:
    node, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    holder, client = arbiter.connect(), member.connect()
    held = holder.acquire(Phase.COMP, 0)
    arbiter.kill()
    wait_until(lambda: member.state().arbiter)
    asking = Asking(client)
    wait_until(lambda: member.state().waiting_for == "COMP")
    arbiter.start()
    assert asking.answer is None
    holder.release(held)
    second = Asking(holder, Phase.PULL)
    assert asking.result().coordinated
    assert second.result().coordinated
    assert node.arbiter() is member


def test_a_resumed_arbiter_finds_that_it_is_none_any_more(make_node: MakeNode) -> None:
    node, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    third = node.add("c")
    holder, client = member.connect(), third.connect()
    held = holder.acquire(Phase.COMP, 0)
    arbiter.stop()
    wait_until(lambda: member.state().arbiter or third.state().arbiter)
    wait_until(lambda: member.state().epoch == third.state().epoch == 2)
    asking = Asking(client)
    wait_until(lambda: third.state().waiting_for == "COMP")
    arbiter.signal(signal.SIGCONT)
    wait_until(lambda: not arbiter.state().arbiter)
    assert asking.answer is None, "the deposed arbiter grants nothing"
    own = Asking(arbiter.connect(), Phase.PULL)
    assert own.result().epoch == 2
    holder.release(held)
    assert asking.result().epoch == 2
    assert "another arbiter took over" in arbiter.log_path.read_text()


def test_an_arbiter_that_ends_in_order_is_succeeded_without_delay(make_node: MakeNode) -> None:
    _, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    client = member.connect()
    client.release(client.acquire(Phase.COMP, 0))
    arbiter.signal(signal.SIGTERM)
    assert arbiter.process is not None
    assert arbiter.process.wait(10) == 0
    assert client.acquire(Phase.COMP, 1).epoch == 2


def test_without_an_arbiter_the_sidecar_fails_open_and_counts_it(make_node: MakeNode) -> None:
    """The store's election lock is held by somebody who never takes the role."""
    node = make_node("a/0")
    election = node.store / "election"
    election.mkdir(parents=True)
    with (election / "take-over.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sidecar = node.add("a")
        client = sidecar.connect()
        many_uncoordinated_turns(client)
        assert sidecar.state().uncoordinated_turns == 30
        assert "harmony_sidecar_uncoordinated_turns_total 30.0" in sidecar.get("/metrics").decode()
    wait_until(lambda: client.acquire(Phase.COMP, 0).coordinated)


def test_without_a_plan_the_sidecar_fails_open_after_ten_seconds(
    make_node: MakeNode, tmp_path: Path
) -> None:
    node = make_node("a/0")
    node.plan_path.unlink()
    client = node.add("a").connect()
    many_uncoordinated_turns(client)
    node.write_plan()
    wait_until(lambda: client.acquire(Phase.COMP, 0).coordinated)
