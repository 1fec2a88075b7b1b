"""Workers, sidecars and arbiters that are killed or stopped while permits are out."""

import fcntl
import random
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sidecar_processes import Node, SidecarProcess, WorkerProcess, wait_until

from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from harmony_api.worker_protocol import (
    MAGIC,
    VERSION,
    FrameReader,
    HelloFlags,
    MessageType,
    Phase,
    encode,
)
from harmony_sidecar.cyclic_order import MINIMUM_LEASE_NANOSECONDS
from harmony_worker.permits import Grant, PermitClient

MakeNode = Callable[..., Node]
StartWorker = Callable[[SidecarProcess, str], WorkerProcess]

pytestmark = pytest.mark.kills

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
