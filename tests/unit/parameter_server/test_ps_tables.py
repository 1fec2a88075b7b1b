"""Sparse tables train as a whole table in one process would, over any number of servers."""

from functools import partial

import pytest
import torch
from parameter_server_job import Running, Threads, Worker

from harmony_worker.parameter_server.optimizers import UnsupportedOptimizerError
from harmony_worker.parameter_server.tables import SparseTable, initial_rows
from harmony_worker.parameter_server.wire import OPEN_GATE

ROWS, COLUMNS, ITERATIONS = 2500, 7, 6
OPTIMIZERS = [("SGD", {"lr": 0.1}), ("Adagrad", {"lr": 0.1}), ("SparseAdam", {"lr": 0.1})]


def table(optimizer: str, **settings: object) -> SparseTable:
    return SparseTable("words", ROWS, COLUMNS, 3, 0.1, optimizer, settings)


def rows_of(worker: int, iteration: int) -> torch.Tensor:
    """Unique rows: some of both workers, some of one, spread over the whole table."""
    generator = torch.Generator().manual_seed(10 * iteration + worker)
    own = torch.randint(ROWS, (40,), generator=generator)
    return torch.unique(torch.cat([own, torch.tensor([0, 5, ROWS - 1])]))


def gradient_of(values: torch.Tensor, worker: int) -> torch.Tensor:
    return (values * 0.3 + 0.1 * (worker + 1)).sin()


def plain(workers: int, optimizer: str, settings: dict[str, object]) -> torch.Tensor:
    """Train the whole table in one process."""
    values = initial_rows(table(optimizer, **settings), range(ROWS))
    stepper = getattr(torch.optim, optimizer)([values], **settings)
    for iteration in range(ITERATIONS):
        total = torch.zeros(ROWS, COLUMNS)
        touched = torch.zeros(ROWS, dtype=torch.bool)
        for worker in range(workers):
            rows = rows_of(worker, iteration)
            total[rows] += gradient_of(values[rows], worker)
            touched[rows] = True
        rows = touched.nonzero().view(-1)
        values.grad = torch.sparse_coo_tensor(
            rows.unsqueeze(0),
            total[rows] / workers,
            (ROWS, COLUMNS),
            is_coalesced=True,
            check_invariants=False,
        )
        stepper.step()
    return values


def train(worker: Worker) -> torch.Tensor:
    for iteration in range(worker.client.initialise().iteration, ITERATIONS):
        worker.client.sync(iteration)
        rows = rows_of(worker.worker, iteration)
        values = worker.client.pull(OPEN_GATE, {"words": rows}).rows["words"]
        gradient = gradient_of(values, worker.worker)
        worker.client.push(iteration, OPEN_GATE, rows={"words": (rows, gradient)})
    worker.client.sync(ITERATIONS)
    everything = torch.arange(ROWS)
    return worker.client.pull(OPEN_GATE, {"words": everything}).rows["words"]


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
@pytest.mark.parametrize(("count", "workers"), [(1, 1), (3, 1), (1, 2), (2, 2)])
def test_a_table_trains_as_in_one_process(
    servers: Threads, optimizer: str, settings: dict[str, object], count: int, workers: int
) -> None:
    addresses = servers.start(count, workers=workers)
    running = [
        Running(
            partial(
                train,
                Worker(
                    addresses,
                    worker=worker,
                    workers=workers,
                    tables=[table(optimizer, **settings)],
                    lr=0.1,
                ),
            )
        )
        for worker in range(workers)
    ]
    expected = plain(workers, optimizer, settings)
    for each in running:
        assert torch.equal(each.result(), expected)


def test_rows_of_a_table_survive_a_snapshot(servers: Threads) -> None:
    words = table("Adagrad", lr=0.1)
    worker = Worker(servers.start(2, snapshot_seconds=1e6), tables=[words], lr=0.1)
    before = train(worker)
    for service in servers.services:
        service.snapshot_at_the_end()
    again = Worker(servers.start(2, snapshot_seconds=1e6)[2:], tables=[words], lr=0.1)
    assert again.client.initialise().iteration == ITERATIONS
    again.client.sync(ITERATIONS)
    after = again.client.pull(OPEN_GATE, {"words": torch.arange(ROWS)}).rows["words"]
    assert torch.equal(before, after)


def test_first_values_do_not_depend_on_how_rows_are_cut() -> None:
    words = table("SGD")
    whole = initial_rows(words, range(ROWS))
    for cut in (1, 1000, 1024, 2000):
        parts = [initial_rows(words, range(cut)), initial_rows(words, range(cut, ROWS))]
        assert torch.equal(torch.cat(parts), whole)
    assert abs(whole.std().item() - 0.1) < 0.01


@pytest.mark.parametrize(
    ("optimizer", "settings", "message"),
    [
        ("Adam", {"lr": 0.1}, "no rule for sparse rows"),
        ("SGD", {"lr": 0.1, "momentum": 0.9}, "set momentum to 0"),
        ("Adagrad", {"lr": 0.1, "weight_decay": 0.1}, "set weight_decay to 0"),
    ],
)
def test_an_optimizer_without_a_rule_for_rows_is_refused(
    optimizer: str, settings: dict[str, object], message: str
) -> None:
    with pytest.raises(UnsupportedOptimizerError, match=message):
        Worker(["127.0.0.1:1"], tables=[table(optimizer, **settings)], lr=0.1)


def test_a_row_that_the_table_does_not_have_is_refused_and_training_goes_on(
    servers: Threads,
) -> None:
    worker = Worker(servers.start(), tables=[table("SGD", lr=0.1)], lr=0.1)
    worker.client.initialise()
    worker.client.sync(0)
    with pytest.raises(IndexError, match="row 2500 of table 'words'"):
        worker.client.pull(OPEN_GATE, {"words": torch.tensor([ROWS])})
    assert torch.equal(train(worker), plain(1, "SGD", {"lr": 0.1}))
