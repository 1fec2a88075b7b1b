"""Workers that are killed, stopped or hang while they hold permits."""

import random
import signal
import threading
import time

import pytest
from sidecar_kill_tools import HOLD, LONG_SECONDS, LOOP, Asking, MakeNode, StartWorker, two_jobs
from sidecar_processes import wait_until

from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from harmony_api.worker_protocol import Phase
from harmony_sidecar.cyclic_order import MINIMUM_LEASE_NANOSECONDS

pytestmark = pytest.mark.kills


@pytest.mark.parametrize("holder_is_at_the_arbiter", [True, False])
def test_a_killed_worker_frees_its_permit_at_once(
    make_node: MakeNode, start_worker: StartWorker, holder_is_at_the_arbiter: bool
) -> None:
    _, arbiter, member = two_jobs(make_node, compute_seconds=LONG_SECONDS)
    its, other = (arbiter, member) if holder_is_at_the_arbiter else (member, arbiter)
    worker = start_worker(its, HOLD)
    assert worker.next_line().startswith("holding True")
    asking = Asking(other.connect())
    wait_until(lambda: other.state().waiting_for == "COMP")
    worker.process.kill()
    grant = asking.result()
    assert grant.coordinated
    assert wait_until(its.turns)[-1].ended_by == "Disconnect"
    assert other.state().revoked_turns == its.state().revoked_turns == 0


def test_a_worker_stopped_beyond_its_lease_loses_its_permit_and_goes_on(
    make_node: MakeNode, start_worker: StartWorker
) -> None:
    _, arbiter, member = two_jobs(make_node)
    worker = start_worker(member, LOOP.format(seed=1, iterations=100000, longest=0.01))
    worker.next_line()
    wait_until(lambda: member.state().doing == "COMP")
    worker.process.send_signal(signal.SIGSTOP)
    client = arbiter.connect()
    for _ in range(3):
        grant = client.acquire(Phase.COMP, 0)
        assert grant.coordinated
        client.release(grant)
    worker.process.send_signal(signal.SIGCONT)
    before = member.state().iteration
    wait_until(lambda: member.state().iteration > before + 3)
    assert overlapping_compute_turns(arbiter.turns() + member.turns()) == []


def test_a_hung_holder_is_revoked_and_its_late_release_ignored(make_node: MakeNode) -> None:
    _, arbiter, member = two_jobs(make_node)
    hung, client = member.connect(), arbiter.connect()
    held = hung.acquire(Phase.COMP, 0)
    assert Asking(client).result().coordinated
    wait_until(lambda: member.state().revoked_turns == 1)
    assert member.turns()[-1].ended_by == "Lease"
    hung.release(held)
    again = Asking(hung)
    wait_until(lambda: member.state().waiting_for == "COMP")
    assert again.answer is None, "the release of a revoked turn frees nobody else's"
    client.release(client.acquire(Phase.PULL, 1))
    assert again.result().coordinated


@pytest.mark.parametrize("holder_is_at_the_arbiter", [True, False])
def test_the_lease_of_a_secondary_lasts_longer_than_its_primary(
    make_node: MakeNode, holder_is_at_the_arbiter: bool
) -> None:
    node, arbiter, member = two_jobs(make_node)
    third = node.add("c")
    its, other = (arbiter, member) if holder_is_at_the_arbiter else (member, arbiter)
    primary = other.connect()
    primary.acquire(Phase.PULL, 0)
    client = its.connect()
    secondary = client.acquire(Phase.PULL, 0)
    later = third.connect()
    later.acquire(Phase.COMP, 0)
    wait_until(lambda: not secondary.chunked, "the end of the primary's lease")
    wait_until(lambda: third.state().revoked_turns == 1, "the end of a lease that began later")
    client.release(secondary)
    (turn,) = wait_until(its.turns)
    assert (turn.ended_by, turn.secondary) == ("Release", True)
    assert turn.end_ns - turn.start_ns > MINIMUM_LEASE_NANOSECONDS


def test_a_phase_longer_than_its_lease_is_measured_all_the_same(make_node: MakeNode) -> None:
    """Otherwise its lease, which comes from its profile, would stay too short for ever."""
    sidecar = make_node("a/0", compute_seconds=0.0).add("a")
    client = sidecar.connect()
    for iteration in range(2 + 3):
        for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
            grant = client.acquire(phase, iteration)
            if phase is Phase.COMP and iteration >= 3:
                revoked = sidecar.state().revoked_turns
                wait_until(lambda r=revoked: sidecar.state().revoked_turns > r)
            client.release(grant)
    profile = wait_until(lambda: sidecar.state().profile)
    assert profile.compute_microseconds >= 2_000_000


def test_random_kills_never_let_two_lease_holders_compute_at_once(
    make_node: MakeNode, start_worker: StartWorker
) -> None:
    random.seed(5)
    node = make_node("a/0", "b/0", "c/0")
    sidecars = [node.add(job) for job in "abc"]
    code = LOOP.format(seed=3, iterations=10**6, longest=0.004)
    workers = [start_worker(sidecar, code) for sidecar in sidecars]
    for worker in workers:
        worker.next_line()
        threading.Thread(target=worker.process.stdout.read, daemon=True).start()
    for _ in range(6):
        victim = random.randrange(3)
        if random.random() < 0.5:
            sidecars[victim].stop()
            time.sleep(random.random())
            sidecars[victim].signal(signal.SIGCONT)
        else:
            workers[victim].process.kill()
            time.sleep(random.random() / 4)
            workers[victim] = start_worker(sidecars[victim], code)
            workers[victim].next_line()
            threading.Thread(target=workers[victim].process.stdout.read, daemon=True).start()
    before = [sidecar.state().turns["COMP"] for sidecar in sidecars]
    for sidecar, count in zip(sidecars, before, strict=True):
        wait_until(lambda s=sidecar, c=count: s.state().turns["COMP"] > c + 5)
    turns = [turn for sidecar in sidecars for turn in sidecar.turns()]
    assert overlapping_compute_turns(turns) == []
    assert excessive_network_turns(turns) == []
