"""Training through servers gives the results of plain torch, to the bit."""

import pytest
import torch
from parameter_server_job import Model, Threads, Worker, loss_of, train_together

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


@pytest.fixture(autouse=True)
def one_thread() -> None:
    torch.set_num_threads(1)


def plain_training(
    workers: int, optimizer: str, settings: dict[str, object], hidden: int = 67
) -> tuple[list[list[float]], Model]:
    """The same job in one process: gradients summed in worker order, then divided."""
    model = Model(7, hidden)
    stepper = getattr(torch.optim, optimizer)(model.parameters(), **settings)
    losses: list[list[float]] = [[] for _ in range(workers)]
    for iteration in range(ITERATIONS):
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
    return losses, model


def same_parameters(a: torch.nn.Module, b: torch.nn.Module) -> bool:
    return all(torch.equal(x, y) for x, y in zip(a.parameters(), b.parameters(), strict=True))


@pytest.mark.parametrize(("optimizer", "settings"), OPTIMIZERS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_one_worker_trains_as_plain_torch_over_any_number_of_servers(
    servers: Threads, optimizer: str, settings: dict[str, object], count: int
) -> None:
    worker = Worker(servers.start(count), optimizer, **settings)
    losses, model = plain_training(1, optimizer, settings)
    assert worker.train(ITERATIONS) == losses[0]
    assert same_parameters(worker.model, model)
    servers.wait_finished()


@pytest.mark.parametrize("count", [1, 2])
def test_two_workers_train_as_plain_torch_that_sums_in_worker_order(
    servers: Threads, count: int
) -> None:
    addresses = servers.start(count, workers=2)
    workers = [Worker(addresses, "Adam", worker=each, workers=2, lr=0.01) for each in range(2)]
    losses, model = plain_training(2, "Adam", {"lr": 0.01})
    assert train_together(workers, ITERATIONS) == losses
    assert same_parameters(workers[0].model, model)
    assert same_parameters(workers[1].model, model)


def test_a_tensor_larger_than_a_block_trains_as_plain_torch(servers: Threads) -> None:
    worker = Worker(servers.start(2), "Adam", hidden=601, lr=0.01)
    losses, model = plain_training(1, "Adam", {"lr": 0.01}, hidden=601)
    assert worker.train(ITERATIONS) == losses[0]
    assert same_parameters(worker.model, model)
