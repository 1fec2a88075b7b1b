"""Servers on the loopback, as threads of the test or as processes, and workers as threads."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch

from harmony_worker.parameter_server.client import ParameterServerClient, RolledBackError
from harmony_worker.parameter_server.server import accept_workers, listen
from harmony_worker.parameter_server.service import Service
from harmony_worker.parameter_server.snapshot_schedule import SnapshotSchedule
from harmony_worker.parameter_server.snapshots import SnapshotStore
from harmony_worker.parameter_server.tables import SparseTable
from harmony_worker.parameter_server.wire import OPEN_GATE

PATIENCE_SECONDS = 60.0


def wait_until(condition: Callable[[], bool], what: str) -> None:
    """Return when the condition holds; fail after PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"gave up waiting until {what}"
        time.sleep(0.005)


class Running(threading.Thread):
    """A function on a thread of its own, whose result or exception `result` hands over."""

    def __init__(self, function: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._function = function
        self._result: object = None
        self._error: BaseException | None = None
        self.start()

    def run(self) -> None:
        try:
            self._result = self._function()
        except BaseException as error:
            self._error = error

    def result(self) -> object:
        """Wait for the end; raises what the function raised."""
        self.join(PATIENCE_SECONDS)
        assert not self.is_alive(), "the thread hangs"
        if self._error is not None:
            raise self._error
        return self._result


class Threads:
    """The servers of one job as threads of the test: the same sockets, started at once."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._listeners: list[socket.socket] = []
        self.services: list[Service] = []
        self._finished: list[threading.Event] = []
        self.failed = threading.Event()
        """An update failed, which ends a server's process."""

    def start(
        self, servers: int = 1, workers: int = 1, snapshot_seconds: float | None = None
    ) -> list[str]:
        """Start a job's servers and return their addresses; without an interval no snapshots."""
        for server in range(servers):
            self._listeners.append(listen("127.0.0.1:0"))
            store = None if snapshot_seconds is None else SnapshotStore(self.snapshots(server))
            finished = threading.Event()
            schedule = SnapshotSchedule(store, snapshot_seconds or 0.0)
            service = Service("job", server, workers, schedule, finished.set, self.failed.set)
            self.services.append(service)
            self._finished.append(finished)
            Running(partial(accept_workers, self._listeners[-1], service))
        return [f"127.0.0.1:{each.getsockname()[1]}" for each in self._listeners]

    def snapshots(self, server: int) -> Path:
        """Folder of one server's snapshots."""
        return self._folder / f"snapshots-{server}"

    def wait_finished(self) -> None:
        """Wait until every server knows that all workers are done."""
        for finished in self._finished:
            assert finished.wait(PATIENCE_SECONDS)

    def stop(self) -> None:
        """Accept nobody any more."""
        for listener in self._listeners:
            listener.shutdown(socket.SHUT_RDWR)
            listener.close()


class Processes:
    """The servers of one job as processes, for tests that end them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[bytes]] = []
        self.addresses: list[str] = []
        self._workers = 1
        self._snapshot_seconds: float | None = None

    def start(
        self, servers: int = 1, workers: int = 1, snapshot_seconds: float | None = None
    ) -> list[str]:
        """Start a job's servers and return their addresses; without an interval no snapshots."""
        self.stop()
        self._workers, self._snapshot_seconds = workers, snapshot_seconds
        with_sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(servers)]
        self.addresses = [f"127.0.0.1:{each.getsockname()[1]}" for each in with_sockets]
        for each in with_sockets:
            each.close()
        self._processes = [self._spawn(server) for server in range(servers)]
        return self.addresses

    def _spawn(self, server: int) -> subprocess.Popen[bytes]:
        environment = {
            **os.environ,
            "HARMONY_JOB": "job",
            "HARMONY_WORKERS": str(self._workers),
            "HARMONY_SERVER_INDEX": str(server),
            "HARMONY_SERVERS": ",".join(self.addresses),
            "OMP_NUM_THREADS": "1",
        }
        if self._snapshot_seconds is not None:
            environment["HARMONY_SNAPSHOT_DIRECTORY"] = str(self.snapshots(server))
            environment["HARMONY_SNAPSHOT_INTERVAL_SECONDS"] = str(self._snapshot_seconds)
        with self.log(server).open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "harmony_worker.parameter_server"],
                env=environment,
                stderr=log,
            )

    def snapshots(self, server: int) -> Path:
        """Folder of one server's snapshots."""
        return self._folder / f"snapshots-{server}"

    def saved(self, server: int) -> set[str]:
        """Names, by iteration, of one server's snapshots."""
        files = self.snapshots(server).glob("*.snapshot")
        return {path.name.partition(".")[0] for path in files}

    def log(self, server: int) -> Path:
        """File with one server's log."""
        return self._folder / f"server-{server}.log"

    def pid(self, server: int) -> int:
        """Process id of one server."""
        return self._processes[server].pid

    def kill(self, server: int, number: int = signal.SIGKILL) -> int:
        """End one server and return its exit code."""
        self._processes[server].send_signal(number)
        return self._processes[server].wait(PATIENCE_SECONDS)

    def start_again(self, server: int) -> None:
        """Start one server anew at its old address."""
        self._processes[server] = self._spawn(server)

    def exit_codes(self) -> list[int]:
        """Wait until all servers have ended by themselves."""
        return [process.wait(PATIENCE_SECONDS) for process in self._processes]

    def stop(self) -> None:
        """Kill whatever runs."""
        for process in self._processes:
            process.kill()
            process.wait()


class Model(torch.nn.Module):
    """Small, with odd sizes, one tensor larger than a block, and tied weights."""

    def __init__(self, seed: int, hidden: int = 67) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.first = torch.nn.Linear(33, hidden)
        self.middle = torch.nn.Linear(hidden, hidden)
        self.again = self.middle
        self.last = torch.nn.Linear(hidden, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.middle(torch.tanh(self.first(x))))
        output: torch.Tensor = self.last(torch.tanh(self.again(hidden)))
        return output


def batch(worker: int, iteration: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the inputs and classes of one iteration: a pure function of its place."""
    generator = torch.Generator().manual_seed(1000 * worker + iteration)
    return torch.randn(16, 33, generator=generator), torch.randint(5, (16,), generator=generator)


def loss_of(model: torch.nn.Module, worker: int, iteration: int) -> torch.Tensor:
    """Run the model on one iteration's batch."""
    inputs, classes = batch(worker, iteration)
    return torch.nn.functional.cross_entropy(model(inputs), classes)


_seeding = threading.Lock()
"""Models are made on several threads, from torch's one generator."""


class Worker:
    """One worker of the test's job: a model, its client, and a loop to run."""

    def __init__(
        self,
        addresses: Sequence[str],
        optimizer: str = "SGD",
        *,
        worker: int = 0,
        workers: int = 1,
        model: torch.nn.Module | None = None,
        hidden: int = 67,
        staleness: int = 0,
        tables: Sequence[SparseTable] = (),
        **settings: object,
    ) -> None:
        self.worker = worker
        with _seeding:
            self.model = Model(7 + worker, hidden) if model is None else model
        optimizer_class = getattr(torch.optim, optimizer)
        self.optimizer = optimizer_class(self.model.parameters(), **settings)
        self.client = ParameterServerClient(
            servers=addresses,
            job="job",
            worker=worker,
            workers=workers,
            parameters=dict(self.model.named_parameters()),
            optimizer_class=optimizer_class,
            optimizer=self.optimizer,
            staleness=staleness,
            tables=tables,
        )

    def compute(self, iteration: int) -> float:
        """SYNC, PULL and COMP of one iteration; returns its loss."""
        self.client.sync(iteration)
        self.client.pull(OPEN_GATE)
        for parameter in self.model.parameters():
            parameter.grad = None
        loss = loss_of(self.model, self.worker, iteration)
        loss.backward()
        return loss.item()

    def iterate(self, iteration: int) -> float:
        """One whole iteration; returns its loss."""
        loss = self.compute(iteration)
        self.client.push(iteration, OPEN_GATE)
        return loss

    def train(self, iterations: int) -> list[float]:
        """Join, train to the end, finish; returns the losses from where it began."""
        resume = self.client.initialise()
        losses = [self.iterate(iteration) for iteration in range(resume.iteration, iterations)]
        self.client.sync(iterations)
        self.client.pull(OPEN_GATE)
        self.client.finished()
        self.client.close()
        return losses


def train_together(workers: Sequence[Worker], iterations: int) -> list[list[float]]:
    """Train all workers at once and return their losses."""
    running = [Running(partial(each.train, iterations)) for each in workers]
    return [each.result() for each in running]


def plain_training(
    iterations: int,
    workers: int,
    optimizer: str,
    *,
    hidden: int = 67,
    decay: float = 1.0,
    **settings: object,
) -> tuple[list[list[float]], Model]:
    """Run the same job in one process: gradients summed in worker order, then divided."""
    model = Model(7, hidden)
    stepper = getattr(torch.optim, optimizer)(model.parameters(), **settings)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(stepper, decay)
    losses: list[list[float]] = [[] for _ in range(workers)]
    for iteration in range(iterations):
        total: list[torch.Tensor] = []
        for worker in range(workers):
            model.zero_grad()
            loss = loss_of(model, worker, iteration)
            loss.backward()
            losses[worker].append(loss.item())
            gradients = [parameter.grad for parameter in model.parameters()]
            total = [a + b for a, b in zip(total, gradients, strict=True)] if total else gradients
        for parameter, gradient in zip(model.parameters(), total, strict=True):
            parameter.grad = gradient / workers
        stepper.step()
        scheduler.step()
    return losses, model


class History:
    """The losses of one worker index over all its processes."""

    def __init__(self) -> None:
        self._seen: dict[int, set[float]] = {}
        self.rollbacks = 0

    def add(self, iteration: int, loss: float) -> None:
        self._seen.setdefault(iteration, set()).add(loss)

    @property
    def losses(self) -> list[float]:
        """By iteration; fails when an iteration was repeated with another loss."""
        assert all(len(values) == 1 for values in self._seen.values()), self._seen
        assert sorted(self._seen) == list(range(len(self._seen)))
        return [next(iter(self._seen[iteration])) for iteration in sorted(self._seen)]


def train_through_rollbacks(
    make: Callable[[], Worker], iterations: int, history: History, pace: Callable[[int], None]
) -> None:
    """Train to the end; after a rollback start anew, as a worker's process does in place.

    `pace` is called after each iteration.
    """
    while True:
        worker = make()
        try:
            for iteration in range(worker.client.initialise().iteration, iterations):
                history.add(iteration, worker.iterate(iteration))
                pace(iteration)
            worker.client.finished()
        except RolledBackError:
            history.rollbacks += 1
        else:
            return
        finally:
            worker.client.close()
