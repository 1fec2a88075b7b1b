"""Workers and servers are lost at awkward moments, and the losses stay the same to the bit."""

import random
import resource
import signal
import socket
import threading
from collections.abc import Callable
from functools import partial

import pytest
from parameter_server_job import (
    History,
    Processes,
    Running,
    Threads,
    Worker,
    plain_training,
    train_through_rollbacks,
    wait_until,
)

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.client import ReplacedError
from harmony_worker.parameter_server.wire import OPEN_GATE, Header, Kind

ITERATIONS = 8


class CrashError(Exception):
    pass


class CrashingGate:
    """Lets a number of small pieces pass and then fails, as a process that dies."""

    chunked = True

    def __init__(self, pieces: int) -> None:
        self._left = pieces
        self._lock = threading.Lock()

    def before_chunk(self) -> None:
        with self._lock:
            self._left -= 1
            if self._left < 0:
                raise CrashError

    def moved(self) -> None:
        pass


def adam_worker(addresses: list[str], worker: int, workers: int) -> Worker:
    return Worker(
        addresses,
        "Adam",
        worker=worker,
        workers=workers,
        hidden=601,
        lr=0.01,
    )


def plain_losses(iterations: int, workers: int) -> list[list[float]]:
    return plain_training(iterations, workers, "Adam", hidden=601, lr=0.01)[0]


@pytest.mark.parametrize("pieces", [0, 1, 9, 14, 1000])
def test_a_worker_lost_in_the_middle_of_a_push_is_replaced_and_replays(
    servers: Threads, pieces: int
) -> None:
    addresses = servers.start(2, workers=2)
    steady = adam_worker(addresses, 0, 2)
    running = Running(partial(steady.train, ITERATIONS))
    victim = adam_worker(addresses, 1, 2)
    victim.client.initialise()
    losses = [victim.iterate(iteration) for iteration in range(4)]
    lost = victim.compute(4)
    try:
        victim.client.push(4, CrashingGate(pieces))
    except CrashError:
        assert pieces < 1000
    victim.client.close()

    successor = adam_worker(addresses, 1, 2)
    resume = successor.client.initialise()
    assert resume.iteration in (4, 5)
    if resume.iteration == 5:
        losses.append(lost)
    losses += [successor.iterate(iteration) for iteration in range(resume.iteration, ITERATIONS)]
    successor.client.finished()
    assert [running.result(), losses] == plain_losses(ITERATIONS, 2)


def test_a_successor_gets_the_state_of_the_iteration_before_its_own(servers: Threads) -> None:
    addresses = servers.start(2)
    worker = adam_worker(addresses, 0, 1)
    worker.client.initialise()
    for iteration in range(3):
        worker.compute(iteration)
        worker.client.push(iteration, OPEN_GATE, worker_state=f"after {iteration}".encode())
    worker.client.close()
    resume = adam_worker(addresses, 0, 1).client.initialise()
    assert (resume.iteration, resume.worker_state) == (3, b"after 2")


def test_a_push_sent_twice_counts_once(servers: Threads) -> None:
    worker = adam_worker(servers.start(2), 0, 1)
    worker.client.initialise()
    losses = []
    for iteration in range(ITERATIONS):
        losses.append(worker.iterate(iteration))
        worker.client.push(iteration, OPEN_GATE)
    assert losses == plain_losses(ITERATIONS, 1)[0]


def test_a_process_that_was_replaced_cannot_come_back(servers: Threads) -> None:
    addresses = servers.start()
    old = adam_worker(addresses, 0, 1)
    old.client.initialise()
    adam_worker(addresses, 0, 1).client.initialise()
    with pytest.raises(ReplacedError):
        old.iterate(0)


def test_a_broken_connection_is_mended_without_a_trace(servers: Threads) -> None:
    worker = adam_worker(servers.start(2), 0, 1)
    losses = []
    for iteration in range(worker.client.initialise().iteration, ITERATIONS):
        losses.append(worker.iterate(iteration))
        for link in worker.client._servers.links:
            link._connection.shutdown(socket.SHUT_RDWR)
    assert losses == plain_losses(ITERATIONS, 1)[0]


def test_a_stop_ends_all_workers_at_one_iteration_and_successors_go_on(servers: Threads) -> None:
    addresses = servers.start(2, workers=2)

    def train_until_stopped(worker: Worker) -> list[float]:
        losses = []
        iteration = worker.client.initialise().iteration
        while worker.client.sync(iteration).stop_at != iteration:
            losses.append(worker.compute(iteration))
            asked = worker.worker == 1 and iteration == 2
            worker.client.push(iteration, OPEN_GATE, stop_requested=asked)
            iteration += 1
        worker.client.close()
        return losses

    first = [Running(partial(train_until_stopped, adam_worker(addresses, w, 2))) for w in (0, 1)]
    losses = [each.result() for each in first]
    assert len(losses[0]) == len(losses[1])
    assert 3 <= len(losses[0]) <= 5
    second = [Running(partial(adam_worker(addresses, w, 2).train, ITERATIONS)) for w in (0, 1)]
    rest = [each.result() for each in second]
    expected = plain_losses(ITERATIONS, 2)
    assert [a + b for a, b in zip(losses, rest, strict=True)] == expected


@pytest.mark.kills
@pytest.mark.parametrize("snapshot_seconds", [0.0, None])
def test_a_killed_server_takes_the_job_back_and_it_repeats_itself(
    processes: Processes, snapshot_seconds: float | None
) -> None:
    addresses = processes.start(2, workers=2, snapshot_seconds=snapshot_seconds)
    histories = [History(), History()]
    reached, go_on = threading.Event(), threading.Event()

    def pace(worker: int, iteration: int) -> None:
        if worker == 0 and iteration == 4:
            reached.set()
            assert go_on.wait(60)

    running = [
        Running(
            partial(
                train_through_rollbacks,
                partial(adam_worker, addresses, worker, 2),
                ITERATIONS,
                histories[worker],
                partial(pace, worker),
            )
        )
        for worker in (0, 1)
    ]
    assert reached.wait(60)
    if snapshot_seconds is not None:
        wait_until(lambda: bool(processes.saved(0) & processes.saved(1)), "both have a snapshot")
    processes.kill(1)
    processes.start_again(1)
    go_on.set()
    for each in running:
        each.result()
    assert [history.losses for history in histories] == plain_losses(ITERATIONS, 2)
    assert histories[0].rollbacks == 1
    assert processes.exit_codes() == [0, 0]
    where = "iteration 0 " if snapshot_seconds is None else "rolled back to iteration"
    assert where in processes.log(1).read_text()


@pytest.mark.kills
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM])
def test_a_job_whose_every_process_ended_resumes_from_its_snapshots(
    processes: Processes, ending: signal.Signals
) -> None:
    interval = 0.0 if ending == signal.SIGKILL else 1e6
    addresses = processes.start(2, snapshot_seconds=interval)
    worker = adam_worker(addresses, 0, 1)
    worker.client.initialise()
    losses = [worker.iterate(iteration) for iteration in range(5)]
    worker.client.sync(5)
    worker.client.close()
    if ending == signal.SIGKILL:
        wait_until(lambda: bool(processes.saved(0) & processes.saved(1)), "both have a snapshot")
    codes = [processes.kill(server, ending) for server in (0, 1)]
    assert codes == [-signal.SIGKILL if ending == signal.SIGKILL else 143] * 2
    for server in (0, 1):
        processes.start_again(server)
    successor = adam_worker(addresses, 0, 1)
    resume = successor.client.initialise()
    assert (1 if ending == signal.SIGKILL else 5) <= resume.iteration <= 5
    again = [successor.iterate(iteration) for iteration in range(resume.iteration, ITERATIONS)]
    assert losses[: resume.iteration] + again == plain_losses(ITERATIONS, 1)[0]


@pytest.mark.kills
def test_a_full_disk_costs_a_warning_and_no_iteration(processes: Processes) -> None:
    addresses = processes.start(2, snapshot_seconds=0.0)
    worker = adam_worker(addresses, 0, 1)
    worker.client.initialise()
    losses: list[float] = []

    def iterate_until(condition: Callable[[], bool]) -> None:
        while not condition():
            losses.append(worker.iterate(len(losses)))

    saved = processes.saved
    iterate_until(lambda: bool(saved(0) & saved(1)))
    resource.prlimit(processes.pid(1), resource.RLIMIT_FSIZE, (100_000, 100_000))
    iterate_until(lambda: "was not written" in processes.log(1).read_text())
    iterate_until(lambda: len(saved(0) - saved(1)) >= 2)
    assert losses == plain_losses(len(losses), 1)[0]

    at = len(losses)
    assert [processes.kill(server) for server in (0, 1)] == [-signal.SIGKILL] * 2
    for server in (0, 1):
        processes.start_again(server)
    successor = adam_worker(addresses, 0, 1)
    resume = successor.client.initialise().iteration
    assert 0 < resume < at
    again = [successor.iterate(iteration) for iteration in range(resume, at)]
    assert losses[:resume] + again == losses
    assert not list(processes.snapshots(1).glob("*.partial"))


def test_a_worker_that_loses_patience_with_its_hello_can_say_it_again(servers: Threads) -> None:
    addresses = servers.start()
    worker = adam_worker(addresses, 0, 1)
    host, _, port = addresses[0].rpartition(":")
    hello = {**worker.client._servers.links[0]._hello, "fresh": True}
    with servers.services[0]._changed:
        for _ in range(3):
            with socket.create_connection((host, int(port))) as connection:
                wire.send_json(connection, Header(Kind.HELLO), hello)
    assert worker.train(3) == plain_losses(3, 1)[0]


def train_among_accidents(worker: int, addresses: list[str], seed: int, history: History) -> None:
    """Train to the end, with crashes in pushes and broken connections at random moments."""
    chance = random.Random(f"{seed}/{worker}")
    while True:
        process = adam_worker(addresses, worker, 2)
        try:
            for iteration in range(process.client.initialise().iteration, ITERATIONS):
                if chance.random() < 0.2:
                    broken = chance.choice(process.client._servers.links)._connection
                    if broken is not None:
                        broken.shutdown(socket.SHUT_RDWR)
                history.add(iteration, process.compute(iteration))
                crash = chance.random() < 0.15
                process.client.push(
                    iteration, CrashingGate(chance.randrange(30)) if crash else OPEN_GATE
                )
                if chance.random() < 0.1:
                    raise CrashError
            process.client.finished()
        except CrashError:
            continue
        else:
            return
        finally:
            process.client.close()


@pytest.mark.parametrize("seed", range(8))
def test_random_losses_of_workers_and_connections_leave_the_losses_alone(
    servers: Threads, seed: int
) -> None:
    addresses = servers.start(2, workers=2, snapshot_seconds=0.0)
    histories = [History(), History()]
    running = [
        Running(partial(train_among_accidents, worker, addresses, seed, histories[worker]))
        for worker in (0, 1)
    ]
    for each in running:
        each.result()
    assert [history.losses for history in histories] == plain_losses(ITERATIONS, 2)
    servers.wait_finished()
