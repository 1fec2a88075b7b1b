"""Outside Harmony the same loop is plain torch."""

import json
import os
import random
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import embedding, mse_loss
from worker_processes import read_losses

import harmony_worker as harmony
from harmony_worker.blocks import BlockOrder
from harmony_worker.job import Job
from harmony_worker.membership import Membership
from harmony_worker.parameter_server.tables import SparseTable, initial_rows
from harmony_worker.phases import PhaseError
from harmony_worker.worker_state import WorkerState

SAMPLES = torch.randn(50, 4, generator=torch.Generator().manual_seed(0))
TARGETS = SAMPLES.sum(dim=1, keepdim=True)


@pytest.fixture(autouse=True)
def outside_harmony(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in os.environ:
        if name.startswith("HARMONY_"):
            monkeypatch.delenv(name)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def train(
    model: Callable[[], nn.Module],
    optimizer: type[torch.optim.Optimizer],
    schedule: bool = False,
    **settings: float,
) -> list[float]:
    losses = []
    with harmony.connect(seed=3) as job:
        network, remote = job.parameter_server(model(), optimizer, **settings)
        if schedule:
            job.schedule(torch.optim.lr_scheduler.CosineAnnealingLR(remote, T_max=20))
        for sample, target in job.blocks(SAMPLES, TARGETS, batch_size=8, iterations=20):
            with job.pull():
                remote.pull()
            with job.compute():
                loss = mse_loss(network(sample), target)
                loss.backward()
            with job.push():
                remote.push()
            losses.append(loss.item())
    return losses


def plain(
    model: Callable[[], nn.Module],
    optimizer: type[torch.optim.Optimizer],
    schedule: bool = False,
    **settings: float,
) -> list[float]:
    from harmony_worker.randomness import seed_everything

    seed_everything(3)
    network = model()
    local = optimizer(network.parameters(), **settings)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(local, T_max=20)
    order = BlockOrder(len(SAMPLES), 8, workers=1, seed=3)
    losses = []
    for iteration in range(20):
        seed_everything(3, 0, iteration)
        rows = torch.from_numpy(order.batch(iteration, 0))
        local.zero_grad()
        loss = mse_loss(network(SAMPLES[rows]), TARGETS[rows])
        loss.backward()
        local.step()
        if schedule:
            scheduler.step()
        losses.append(loss.item())
    return losses


def linear() -> nn.Module:
    return nn.Linear(4, 1)


def normalised() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.2), nn.Linear(8, 1))


@pytest.mark.parametrize("model", [linear, normalised])
@pytest.mark.parametrize("schedule", [False, True])
def test_the_losses_are_those_of_plain_torch(
    model: Callable[[], nn.Module], schedule: bool
) -> None:
    assert train(model, torch.optim.Adam, schedule, lr=0.05) == plain(
        model, torch.optim.Adam, schedule, lr=0.05
    )


def test_an_iteration_draws_the_same_random_numbers_whatever_was_drawn_before() -> None:
    drawn = []
    for greedy in (False, True):
        with harmony.connect(seed=5) as job:
            for iteration in job.iterations(3):
                if greedy and iteration == 0:
                    torch.rand(100), np.random.rand(100), random.random()
            drawn.append((torch.rand(1).item(), np.random.rand(), random.random()))
    assert drawn[0] == drawn[1]


def test_a_sparse_embedding_trains_like_a_whole_table() -> None:
    ids = torch.randint(100, (20, 6), generator=torch.Generator().manual_seed(1))
    with harmony.connect(seed=3) as job:
        table = harmony.SparseEmbedding(100, 4, scale=0.5)
        model, optimizer = job.parameter_server(
            nn.ModuleDict({"table": table}), torch.optim.Adagrad, lr=0.1
        )
        losses = []
        for iteration in job.iterations(20):
            with job.pull():
                optimizer.pull({model["table"]: ids[iteration]})
            with job.compute():
                loss = (table(ids[iteration]).sum(dim=1) - 1).square().mean()
                loss.backward()
            with job.push():
                optimizer.push()
            losses.append(loss.item())

    spec = SparseTable("table", 100, 4, seed=3, scale=0.5, optimizer="Adagrad", hyperparameters={})
    whole = nn.Parameter(initial_rows(spec, range(100)))
    local = torch.optim.Adagrad([whole], lr=0.1)
    expected = []
    for row in ids:
        local.zero_grad()
        loss = (embedding(row, whole).sum(dim=1) - 1).square().mean()
        loss.backward()
        local.step()
        expected.append(loss.item())
    assert losses == pytest.approx(expected, rel=1e-5)
    assert losses[-1] < losses[0]


def test_a_row_that_was_not_pulled_is_an_error() -> None:
    table = harmony.SparseEmbedding(10, 2)
    with pytest.raises(PhaseError, match="did not name"):
        table(torch.tensor([3]))
    table.hold(torch.tensor([1, 3]), torch.zeros(2, 2))
    assert table(torch.tensor([[3, 1], [1, 1]])).shape == (2, 2, 2)
    with pytest.raises(PhaseError, match="did not name"):
        table(torch.tensor([2]))


def test_phases_out_of_place_are_errors() -> None:
    with harmony.connect() as job:
        _, optimizer = job.parameter_server(nn.Linear(2, 1), torch.optim.SGD, lr=0.1)
        with pytest.raises(PhaseError, match=r"with job\.pull\(\)"):
            optimizer.pull()
        with pytest.raises(PhaseError, match=r"with job\.push\(\)"), job.compute():
            optimizer.push()
        with pytest.raises(PhaseError, match="COMP within PULL"), job.pull(), job.compute():
            pass
        with pytest.raises(PhaseError, match="in place of step"):
            optimizer.step()
        with pytest.raises(PhaseError, match="iteration 0 ended without"):
            for _ in job.iterations(2):
                pass


def test_several_workers_without_servers_are_refused() -> None:
    job = Job(Membership(workers=2))
    with pytest.raises(PhaseError, match="need parameter servers"):
        job.parameter_server(nn.Linear(2, 1), torch.optim.SGD, lr=0.1)


def test_data_of_different_lengths_is_refused() -> None:
    with harmony.connect() as job, pytest.raises(ValueError, match=r"not of \[2, 3\]"):
        next(job.blocks(torch.zeros(2), torch.zeros(3), batch_size=1))


def test_the_total_is_the_arguments_then_the_manifests_then_the_default() -> None:
    def totals(member: Membership, iterations: int | None) -> int:
        return len(list(Job(member).iterations(iterations, default=4)))

    assert totals(Membership(), None) == 4
    assert totals(Membership(iterations=3), None) == 3
    assert totals(Membership(iterations=3), 2) == 2


def test_the_loss_log_is_exact_and_its_last_word_counts(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "losses-0.jsonl"
    job = Job(Membership(loss_log=path))
    for loss in (0.25, 1 / 3):
        job.report(torch.tensor(loss, dtype=torch.float64, requires_grad=True))
    job.close()
    with path.open("a") as file:
        file.write('{"iteration": 1, "lo')
    assert json.loads(path.read_text().splitlines()[0]) == {
        "iteration": 0,
        "loss": 0.25,
        "hex": "0x1.0000000000000p-2",
    }
    assert read_losses(path) == {0: (1 / 3).hex()}


def test_a_full_disk_costs_lines_and_never_the_training(caplog: pytest.LogCaptureFixture) -> None:
    job = Job(Membership(loss_log=Path("/dev/full")))
    for loss in (0.5, 0.25):
        job.report(loss)
    job.close()
    assert [record.message for record in caplog.records] == [
        "losses are not recorded: [Errno 28] No space left on device"
    ]


def test_worker_state_is_empty_until_a_buffer_changes() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    model.register_buffer("mask", torch.ones(1000))
    state = WorkerState(model, {})
    assert state.dump() == b""

    model(torch.randn(4, 2))
    blob = state.dump()
    assert 0 < len(blob) < 4000

    other = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    kept: dict[str, Tensor] = {}
    WorkerState(other, kept).load(blob)
    assert torch.equal(other[1].running_mean, model[1].running_mean)
    assert other[1].num_batches_tracked == 1
    assert kept == {}


def test_worker_state_carries_what_the_program_keeps() -> None:
    blob = WorkerState(nn.Linear(1, 1), {"hidden": torch.arange(3)}).dump()
    kept: dict[str, Tensor] = {}
    WorkerState(nn.Linear(1, 1), kept).load(blob)
    assert kept["hidden"].tolist() == [0, 1, 2]


def test_importing_the_package_loads_no_torch() -> None:
    code = "import sys, harmony_worker; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_a_computation_that_fails_waits_for_the_device_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gets the permit next would share the device with what is queued."""
    waits: list[str] = []
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: waits.append("waited"))
    job = Job(Membership())
    with pytest.raises(ZeroDivisionError), job.compute():
        _ = 1 / 0
    assert waits == ["waited"]
    job.close()
