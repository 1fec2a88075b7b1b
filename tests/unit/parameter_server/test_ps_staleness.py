"""Bounded staleness: a worker runs ahead of the slowest by so much and no more."""

import threading
from functools import partial

from parameter_server_job import Running, Threads, Worker, wait_until

from harmony_worker.parameter_server.wire import OPEN_GATE

ITERATIONS, STALENESS = 30, 2


def workers_of(addresses: list[str]) -> list[Worker]:
    return [
        Worker(addresses, "SGD", worker=each, workers=2, staleness=STALENESS, lr=0.05)
        for each in (0, 1)
    ]


def test_a_worker_waits_when_it_is_more_than_the_bound_ahead(servers: Threads) -> None:
    fast, slow = workers_of(servers.start(2, workers=2))
    fast.client.initialise()
    slow.client.initialise()
    for iteration in range(STALENESS + 1):
        fast.iterate(iteration)
    waiting = Running(partial(fast.client.sync, STALENESS + 1))
    slow.iterate(0)
    assert waiting.is_alive()
    slow.client.sync(1)
    waiting.result()


def test_two_workers_learn_and_never_leave_the_bound(servers: Threads) -> None:
    workers = workers_of(servers.start(2, workers=2))
    at = [0, 0]
    lock = threading.Lock()
    worst = 0

    def train(worker: Worker) -> list[float]:
        nonlocal worst
        losses = []
        for iteration in range(worker.client.initialise().iteration, ITERATIONS):
            with lock:
                at[worker.worker] = iteration
            worker.client.sync(iteration)
            with lock:
                worst = max(worst, iteration - min(at))
            losses.append(worker.compute(iteration))
            worker.client.push(iteration, OPEN_GATE)
        worker.client.finished()
        return losses

    for each in [Running(partial(train, worker)) for worker in workers]:
        losses = each.result()
        assert isinstance(losses, list)
        assert len(losses) == ITERATIONS
    assert worst <= STALENESS
    servers.wait_finished()


def test_a_snapshot_is_of_one_iteration_on_all_servers(servers: Threads) -> None:
    workers = workers_of(servers.start(2, workers=2, snapshot_seconds=0.0))
    for each in [Running(partial(worker.train, ITERATIONS)) for worker in workers]:
        each.result()
    servers.wait_finished()
    for service in servers.services:
        wait_until(lambda service=service: not service._snapshots._is_writing, "it is written")
    one, two = (set(service._snapshots.iterations) for service in servers.services)
    assert one & two
    successors = workers_of(servers.start(2, workers=2, snapshot_seconds=1e6)[2:])
    running = [Running(worker.client.initialise) for worker in successors]
    assert {each.result().iteration for each in running} == {max(one & two)}
