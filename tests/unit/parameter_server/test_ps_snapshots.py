"""Snapshot files are whole or not used."""

import logging
import os
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parameter_server_job import Threads, Worker, wait_until

from harmony_worker.parameter_server.client import ServerRefusedError
from harmony_worker.parameter_server.snapshots import SnapshotError, SnapshotStore


def state(value: float) -> dict[str, object]:
    return {
        "parameters": torch.full((1000,), value),
        "optimizer": [{"step": torch.tensor(3.0), "moment": torch.randn(2, 3).double()}, {}],
        "groups": [{"lr": 0.1, "betas": [0.9, 0.999], "fused": None}],
        "half": torch.tensor([float("nan"), -0.0, 1e-8], dtype=torch.bfloat16),
        "empty": torch.empty(0),
    }


def equal(a: object, b: object) -> bool:
    if isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor):
        same_form = a.dtype == b.dtype and a.shape == b.shape
        return same_form and torch.equal(
            a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)
        )
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
    if isinstance(a, list) and isinstance(b, list):
        return len(a) == len(b) and all(map(equal, a, b))
    return a == b


def files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.snapshot"))


def test_what_was_written_is_read_back_to_the_bit(tmp_path: Path) -> None:
    written = state(0.1)
    SnapshotStore(tmp_path).write(7, "ab", written)
    store = SnapshotStore(tmp_path)
    assert store.iterations == [7]
    assert equal(store.read(7), written)


def test_the_last_two_are_kept(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    for iteration in (1, 5, 9, 10):
        store.write(iteration, "ab", state(iteration))
    assert SnapshotStore(tmp_path).iterations == [9, 10]
    assert len(list(tmp_path.iterdir())) == 2


def test_the_newest_that_all_servers_have_outlives_newer_ones(tmp_path: Path) -> None:
    store = SnapshotStore(tmp_path)
    store.write(1, "ab", state(1))
    store.keep(1)
    for iteration in (2, 3, 4):
        store.write(iteration, "ab", state(iteration))
    assert store.iterations == [1, 3, 4]
    store.keep(4)
    assert SnapshotStore(tmp_path).iterations == [3, 4]


@given(st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_cut_or_changed_file_is_not_used_and_the_older_one_is(
    tmp_path_factory: pytest.TempPathFactory, place: float, cut: bool
) -> None:
    folder = tmp_path_factory.mktemp("snapshots")
    store = SnapshotStore(folder)
    store.write(1, "ab", state(1))
    store.write(2, "ab", state(2))
    newest = files(folder)[1]
    position = int(place * newest.stat().st_size)
    if cut:
        os.truncate(newest, position)
    else:
        data = bytearray(newest.read_bytes())
        data[position] ^= 1
        newest.write_bytes(data)
    assert SnapshotStore(folder).iterations == [1]
    with pytest.raises(SnapshotError, match="cannot be read"):
        store.read(2)
    assert store.iterations == [1]


def test_a_file_left_half_written_is_removed(tmp_path: Path) -> None:
    (tmp_path / "iteration-3.partial").write_bytes(b"half")
    assert SnapshotStore(tmp_path).iterations == []
    assert list(tmp_path.iterdir()) == []


def train_with_snapshots(servers: Threads, iterations: int, **settings: object) -> None:
    worker = Worker(servers.start(snapshot_seconds=0.0), "SGD", **settings)
    worker.client.initialise()
    for iteration in range(iterations):
        worker.iterate(iteration)
        wait_until(lambda: not servers.services[0]._snapshots._is_writing, "it is written")
    worker.client.sync(iterations)
    wait_until(lambda: not servers.services[0]._snapshots._is_writing, "it is written")
    worker.client.close()


def test_a_job_resumes_from_the_older_snapshot_when_the_newest_is_cut(
    servers: Threads, caplog: pytest.LogCaptureFixture
) -> None:
    train_with_snapshots(servers, 4, lr=0.1)
    newest = files(servers.snapshots(0))[-1]
    os.truncate(newest, newest.stat().st_size // 2)
    iterations = [int(path.name.split(".")[0].partition("-")[2]) for path in files(newest.parent)]
    with caplog.at_level(logging.WARNING):
        resumed = Worker(servers.start(snapshot_seconds=0.0)[1:], "SGD", lr=0.1)
    assert resumed.client.initialise().iteration == iterations[0]
    assert f"{newest} is damaged" in caplog.text


def test_snapshots_of_another_model_are_refused_with_a_way_out(servers: Threads) -> None:
    train_with_snapshots(servers, 3, lr=0.1)
    other = Worker(servers.start(snapshot_seconds=0.0)[1:], "SGD", hidden=9, lr=0.1)
    with pytest.raises(ServerRefusedError, match="another model, optimizer or number of servers"):
        other.client.initialise()
