"""Training through servers gives the results of plain torch, to the bit."""

from functools import partial

import pytest
import torch
from parameter_server_job import Running, Threads, Worker, plain_training, train_together

from harmony_worker.parameter_server.client import ServerRefusedError
from harmony_worker.parameter_server.optimizers import UnsupportedOptimizerError

ITERATIONS = 6
OPTIMIZERS = [
    ("SGD", {"lr": 0.1}),
    ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
    ("Adam", {"lr": 0.01}),
    ("AdamW", {"lr": 0.01, "amsgrad": True}),
    ("Adagrad", {"lr": 0.05}),
    ("RMSprop", {"lr": 0.005, "centered": True}),
    ("Adafactor", {"lr": 0.01}),
]


def same_parameters(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_worker_trains_as_plain_torch_over_any_number_of_servers(
    servers: Threads, optimizer: str, settings: dict[str, object], count: int
) -> None:
    worker = Worker(servers.start(count), optimizer, **settings)
    losses, model = plain_training(ITERATIONS, 1, optimizer, **settings)
    assert worker.train(ITERATIONS) == losses[0]
    assert same_parameters(worker.model, model)
    servers.wait_finished()


@pytest.mark.parametrize("count", [1, 2])
def test_two_workers_train_as_plain_torch_that_sums_in_worker_order(
    servers: Threads, count: int
) -> None:
    addresses = servers.start(count, workers=2)
    workers = [Worker(addresses, "Adam", worker=each, workers=2, lr=0.01) for each in range(2)]
    losses, model = plain_training(ITERATIONS, 2, "Adam", lr=0.01)
    assert train_together(workers, ITERATIONS) == losses
    assert same_parameters(workers[0].model, model)
    assert same_parameters(workers[1].model, model)


def test_a_tensor_larger_than_a_block_trains_as_plain_torch(servers: Threads) -> None:
    worker = Worker(servers.start(2), "Adam", hidden=601, lr=0.01)
    losses, model = plain_training(ITERATIONS, 1, "Adam", hidden=601, lr=0.01)
    assert worker.train(ITERATIONS) == losses[0]
    assert same_parameters(worker.model, model)


def test_a_schedule_of_the_chief_reaches_every_server(servers: Threads) -> None:
    addresses = servers.start(2, workers=2)
    workers = [Worker(addresses, "SGD", worker=each, workers=2, lr=0.5) for each in range(2)]

    def train(worker: Worker) -> list[float]:
        scheduler = torch.optim.lr_scheduler.ExponentialLR(worker.optimizer, 0.5)
        worker.optimizer._opt_called = True
        losses = []
        for iteration in range(worker.client.initialise().iteration, ITERATIONS):
            losses.append(worker.iterate(iteration))
            if worker.worker == 0:
                scheduler.step()
        return losses

    running = [Running(partial(train, worker)) for worker in workers]
    losses, _ = plain_training(ITERATIONS, 2, "SGD", decay=0.5, lr=0.5)
    assert [each.result() for each in running] == losses


def test_parameters_that_no_optimizer_has_stay_with_the_worker(servers: Threads) -> None:
    worker = Worker(servers.start(), "SGD", lr=0.1)
    frozen = torch.nn.Parameter(torch.ones(3))
    worker.model.register_parameter("frozen", frozen)
    worker.train(2)
    assert torch.equal(frozen, torch.ones(3))


@pytest.mark.parametrize(
    ("optimizer", "message"), [("LBFGS", "first-order"), ("SparseAdam", "sparse tables only")]
)
def test_an_optimizer_that_no_server_can_run_is_refused_with_a_way_out(
    optimizer: str, message: str
) -> None:
    with pytest.raises(UnsupportedOptimizerError, match=message):
        Worker(["127.0.0.1:1"], optimizer, lr=0.1)


def test_a_worker_with_another_model_is_refused(servers: Threads) -> None:
    addresses = servers.start(workers=2)
    Worker(addresses, "SGD", workers=2, lr=0.1).client.initialise()
    other = Worker(addresses, "SGD", worker=1, workers=2, hidden=9, lr=0.1)
    with pytest.raises(ServerRefusedError, match="differs from that of the other workers"):
        other.client.initialise()


def test_an_update_that_fails_ends_the_server(servers: Threads) -> None:
    worker = Worker(servers.start(), "SGD", lr=0.1)
    worker.client.initialise()
    worker.optimizer.param_groups[0]["lr"] = "fast"
    worker.iterate(0)
    asking = Running(partial(worker.client.sync, 1))
    assert servers.failed.wait(60)
    asking.result()
