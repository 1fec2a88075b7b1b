"""A node of real sidecars: permits, events, profile, plans, and the answers over HTTP."""

import json
import random
import subprocess
import sys
import threading
import time
import urllib.error
from collections.abc import Callable

import pytest
from sidecar_processes import DEADLINE_SECONDS, Node, SidecarProcess, wait_until

from harmony_api.profile import JobProfile
from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from harmony_api.worker_protocol import Phase
from harmony_worker.grant import Grant
from harmony_worker.permits import PermitClient

MakeNode = Callable[..., Node]


def acquire_in_thread(
    client: PermitClient, phase: Phase = Phase.COMP
) -> tuple[threading.Thread, list[Grant]]:
    grants: list[Grant] = []
    thread = threading.Thread(target=lambda: grants.append(client.acquire(phase, 0)), daemon=True)
    thread.start()
    return thread, grants


def train(client: PermitClient, iterations: int, seconds: float = 0.0, update_ns: int = 0) -> None:
    for iteration in range(iterations):
        client.synced(iteration, 2 * update_ns, update_ns)
        for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
            grant = client.acquire(phase, iteration)
            time.sleep(seconds)
            client.release(grant, 1000 if phase is not Phase.COMP else 0)
        client.report(iteration, iterations, 1.0 / (1 + iteration))


def test_two_jobs_never_compute_at_once_and_all_is_recorded(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0", "c/0")
    sidecars = [node.add(job) for job in "abc"]
    threads = [threading.Thread(target=train, args=(s.connect(), 50, 0.0005)) for s in sidecars]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    turns = [turn for sidecar in sidecars for turn in sidecar.turns()]
    assert len([turn for turn in turns if turn.phase == "COMP" and turn.coordinated]) == 150
    assert overlapping_compute_turns(turns) == []
    assert excessive_network_turns(turns) == []
    assert any(turn.secondary for turn in turns)
    assert [sidecar.state().arbiter for sidecar in sidecars].count(True) == 1


def test_events_are_read_page_by_page(make_node: MakeNode) -> None:
    sidecar = make_node("a/0", "absent/0").add("a")  # so that each phase waits for its grant
    train(sidecar.connect(), 400)
    wait_until(lambda: sidecar.state().turns["PUSH"] == 400)
    turns = sidecar.turns()
    assert [turn.sequence for turn in turns] == list(range(1, 1601))
    assert [turn.phase for turn in turns[:4]] == ["SYNC", "PULL", "COMP", "PUSH"]
    assert all(turn.requested_ns <= turn.start_ns <= turn.end_ns for turn in turns)
    assert [turn.bytes for turn in turns[:4]] == [0, 1000, 0, 1000]


def test_the_profile_holds_phases_and_updates_without_waiting(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0")
    a, b = node.add("a"), node.add("b")
    assert a.get("/profile") == b""
    other = b.connect()
    held = other.acquire(Phase.COMP, 0)
    client = a.connect()
    thread = threading.Thread(target=train, args=(client, 8, 0.01, 4_000_000), daemon=True)
    thread.start()
    wait_until(lambda: a.state().waiting_for == "COMP")
    assert a.state().doing == "Waiting"
    other.release(held)
    train(other, 8, 0.03)
    other.end()
    thread.join()
    wait_until(lambda: a.state().turns["PUSH"] == 8)
    profile = wait_until(lambda: a.state().profile)
    assert profile == JobProfile.model_validate_json(a.get("/profile"))
    turns = a.turns()
    for phase, measured in (
        ("COMP", profile.compute_microseconds),
        ("PULL", profile.pull_microseconds),
        ("PUSH", profile.push_microseconds),
    ):
        held_ns = [turn.end_ns - turn.start_ns for turn in turns if turn.phase == phase]
        assert min(held_ns) <= measured * 1000 + 500
        assert measured * 1000 - 500 <= max(held_ns)
    assert profile.update_microseconds == 4_000
    assert (profile.pull_bytes, profile.push_bytes) == (1000, 1000)
    waited_ns = [turn.start_ns - turn.requested_ns for turn in turns if turn.phase == "COMP"]
    assert a.state().wait_seconds["COMP"] == pytest.approx(sum(waited_ns) / 1e9) != 0


def test_progress_shows_in_the_state(make_node: MakeNode) -> None:
    sidecar = make_node("a/0").add("a")
    client = sidecar.connect()
    client.report(3, 10, 0.25)
    state = wait_until(lambda: (state := sidecar.state()).iteration == 3 and state)
    assert (state.total, state.loss, state.connected, state.ended) == (10, 0.25, True, False)
    client.end()
    wait_until(lambda: sidecar.state().ended)


def test_metrics_count_what_happened(make_node: MakeNode) -> None:
    sidecar = make_node("a/0").add("a")
    train(sidecar.connect(), 3)
    wait_until(lambda: sidecar.state().turns["PUSH"] == 3)
    lines = sidecar.get("/metrics").decode().splitlines()
    for line in (
        'harmony_sidecar_turns_total{phase="COMP"} 3.0',
        'harmony_sidecar_bytes_total{phase="PULL"} 3000.0',
        'harmony_sidecar_hold_seconds_count{phase="PUSH"} 3.0',
        "harmony_sidecar_uncoordinated_turns_total 0.0",
        "harmony_sidecar_revoked_turns_total 0.0",
        "harmony_sidecar_epoch 1.0",
        "harmony_sidecar_is_arbiter 1.0",
    ):
        assert line in lines
    assert sidecar.get("/healthz") == b"ok\n"


@pytest.mark.parametrize("path", ["/events?after=-1", "/events?after=x", "/nothing"])
def test_a_bad_request_is_refused(make_node: MakeNode, path: str) -> None:
    sidecar = make_node("a/0").add("a")
    with pytest.raises(urllib.error.HTTPError, match=r"40[04]"):
        sidecar.get(path)


def test_a_worker_stops_when_the_plan_says_so(make_node: MakeNode) -> None:
    node = make_node("a/0")
    client = node.add("a").connect()
    assert not client.should_stop()
    assert not client.acquire(Phase.PULL, 0).stop
    node.write_plan(stop=True, generation=2)
    wait_until(lambda: client.acquire(Phase.COMP, 0).stop)
    assert client.should_stop()


def test_a_broken_plan_leaves_the_old_one_in_force(make_node: MakeNode) -> None:
    node = make_node("a/0")
    sidecar = node.add("a")
    client = sidecar.connect()
    node.plan_path.write_text('{"group": "g", "gener')
    wait_until(lambda: "cannot be read" in sidecar.log_path.read_text())
    assert client.acquire(Phase.COMP, 0).coordinated
    node.write_plan(generation=5)
    wait_until(lambda: sidecar.state().plan_generation == 5)


def test_without_coordination_phases_are_only_measured(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0", permits="None")
    a, b = node.add("a"), node.add("b")
    first, second = a.connect(), b.connect()
    grants = [first.acquire(Phase.COMP, 0), second.acquire(Phase.COMP, 0)]
    assert [grant.coordinated for grant in grants] == [False, False]
    second.release(grants[1])
    first.release(grants[0])
    train(first, 6, 0.001)
    state = wait_until(lambda: (state := a.state()).profile and state)
    assert state.uncoordinated_turns == 0
    assert [turn.turn for turn in a.turns()] == [0] * len(a.turns())


def test_a_program_that_never_connects_holds_nobody_up(make_node: MakeNode) -> None:
    node = make_node("a/0", "silent/0")
    node.add("silent")
    client = node.add("a").connect()
    for iteration in range(10):
        grant = client.acquire(Phase.COMP, iteration)
        assert grant.coordinated
        client.release(grant)


def test_a_program_that_ended_holds_nobody_up(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0")
    first, second = node.add("a").connect(), node.add("b").connect()
    first.acquire(Phase.COMP, 0)
    thread, grants = acquire_in_thread(second)
    first.end()
    thread.join()
    assert grants[0].coordinated
    assert not first.acquire(Phase.COMP, 1).coordinated


def test_a_secondary_moves_only_while_the_primary_is_idle(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0")
    first, second = node.add("a").connect(), node.add("b").connect()
    primary = first.acquire(Phase.PULL, 0)
    secondary = second.acquire(Phase.PULL, 0)
    assert (primary.secondary, secondary.secondary) == (False, True)
    assert (primary.chunked, secondary.chunked) == (False, True)
    primary.before_chunk()
    board = secondary._board
    assert board is not None

    def is_held_back() -> bool:
        primary.moved()
        return not board.may_move(Phase.PULL, secondary.turn)

    wait_until(is_held_back)
    secondary.before_chunk()  # returns, since the primary has been idle for a while

    def stood_aside() -> bool:
        primary.moved()
        secondary.before_chunk()
        return secondary.paused_ns > 0

    wait_until(stood_aside)
    first.release(primary)
    wait_until(lambda: not secondary.chunked, "promotion")
    secondary.before_chunk()


def test_a_transfer_that_ignores_the_board_gets_no_company(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0")
    first, second = node.add("a").connect(chunked=False), node.add("b").connect()
    primary = first.acquire(Phase.PULL, 0)
    thread, grants = acquire_in_thread(second, Phase.PULL)
    wait_until(lambda: node.sidecars["b/0"].state().waiting_for == "PULL")
    first.release(primary)
    thread.join()
    assert not grants[0].secondary


def test_a_job_alone_begins_at_once_until_another_joins_and_all_is_recorded(
    make_node: MakeNode,
) -> None:
    node = make_node("a/0", compute_seconds=60.0)
    first = node.add("a")
    node.arbiter()
    client = first.connect()
    assert client.acquire(Phase.PULL, 0).turn, "the first time it waits for the answer"
    began = client.acquire(Phase.COMP, 0)
    assert (began.turn, began.coordinated) == (0, True)
    wait_until(lambda: first.state().doing == "COMP")
    second = node.add("b").connect()
    thread, grants = acquire_in_thread(second)
    client.release(began)
    thread.join()
    asked, answers = acquire_in_thread(client)
    wait_until(lambda: first.state().waiting_for == "COMP")
    second.release(grants[0])
    asked.join()
    assert answers[0].turn
    turns = first.turns()
    assert [(turn.phase, turn.ended_by) for turn in turns] == [
        ("PULL", "Release"),
        ("COMP", "Release"),
    ]
    assert all(turn.turn for turn in turns)
    assert overlapping_compute_turns(turns + node.sidecars["b/0"].turns()) == []


def test_a_job_alone_sees_what_the_plan_says(make_node: MakeNode) -> None:
    node = make_node("a/0")
    client = node.add("a").connect()
    for iteration in range(3):
        client.release(client.acquire(Phase.COMP, iteration))
    node.write_plan(stop=True, generation=2)

    def stops() -> bool:
        grant = client.acquire(Phase.COMP, 3)
        client.release(grant)
        return grant.stop

    wait_until(stops)


def test_a_job_alone_that_has_ended_has_no_leave_any_more(make_node: MakeNode) -> None:
    client = make_node("a/0").add("a").connect()
    while client.acquire(Phase.COMP, 0).turn:
        pass
    client.end()
    assert not client.acquire(Phase.COMP, 1).coordinated


def test_a_newer_connection_of_the_worker_replaces_the_older(make_node: MakeNode) -> None:
    sidecar = make_node("a/0").add("a")
    old = sidecar.connect()
    old.acquire(Phase.COMP, 0)
    new = sidecar.connect()
    grant = new.acquire(Phase.COMP, 0)
    assert grant.coordinated
    turns = sidecar.turns()
    assert [turn.ended_by for turn in turns] == ["Disconnect"]


def test_the_store_of_a_dead_run_is_used_again(make_node: MakeNode) -> None:
    node = make_node("a/0")
    sidecar: SidecarProcess = node.add("a")
    sidecar.connect().acquire(Phase.COMP, 0)
    sidecar.kill()
    sidecar.start()
    client = sidecar.connect()
    grant = client.acquire(Phase.COMP, 1)
    assert grant.coordinated
    assert grant.epoch == 2
    assert sorted(path.name for path in (node.store / "election").iterdir()) == [
        "arbiter",
        "arbiter-2.sock",
        "holders-2",
        "net-board",
        "take-over.lock",
    ]


def test_a_page_of_garbage_is_no_arbiter(make_node: MakeNode) -> None:
    node = make_node("a/0")
    election = node.store / "election"
    election.mkdir(parents=True)
    (election / "arbiter").write_bytes(b"\xff" * 4096)
    (election / "holders-1").write_bytes(b"\xff" * 100)
    client = node.add("a").connect()
    assert client.acquire(Phase.COMP, 0).epoch == 1


def test_missing_settings_are_named() -> None:
    run = subprocess.run(
        [sys.executable, "-m", "harmony_sidecar"], env={}, capture_output=True, text=True
    )
    assert run.returncode == 2
    assert "HARMONY_SOCKET" in run.stderr


def test_a_long_path_is_no_obstacle(make_node: MakeNode) -> None:
    node = make_node("a/0", "b/0")
    node.folder = node.folder / ("deep" * 20) / ("deeper" * 15)
    node.folder.mkdir(parents=True)
    node.write_plan()
    clients = [node.add(job).connect() for job in "ab"]
    for client in clients:
        grant = client.acquire(Phase.COMP, 0)
        assert grant.coordinated
        client.release(grant)
    assert json.loads(node.plan_path.read_text())["group"] == "g"


@pytest.mark.parametrize("permits", ["Cyclic", "FixedAlternation"])
def test_two_jobs_on_two_nodes_with_two_workers_each_never_deadlock(
    make_node: MakeNode, permits: str
) -> None:
    """Each node orders the jobs its own way, and every iteration waits for the other node."""
    iterations = 40
    nodes = [make_node("a/0", "b/0", permits=permits), make_node("b/1", "a/1", permits=permits)]
    barriers = {job: threading.Barrier(2, timeout=DEADLINE_SECONDS) for job in "ab"}
    done: list[str] = []

    def work(job: str, client: PermitClient, seed: int) -> None:
        delay = random.Random(seed)
        for iteration in range(iterations):
            for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
                time.sleep(delay.random() * 0.002)
                grant = client.acquire(phase, iteration)
                assert grant.coordinated
                time.sleep(delay.random() * 0.004)
                client.release(grant)
            barriers[job].wait()
        client.end()
        done.append(job)

    for index, node in enumerate(nodes):
        for job in "ab":
            client = node.add(job, index).connect()
            threading.Thread(target=work, args=(job, client, index), daemon=True).start()
    wait_until(lambda: sorted(done) == ["a", "a", "b", "b"], "the end of all four workers")
    for node in nodes:
        turns = [turn for sidecar in node.sidecars.values() for turn in sidecar.turns()]
        assert len(turns) == 2 * 3 * iterations
        assert overlapping_compute_turns(turns) == []
        assert excessive_network_turns(turns) == []
