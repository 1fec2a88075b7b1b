"""Transfers ask their gate before each piece, and pieces are small while they are secondary."""

import socket
import threading

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from parameter_server_job import Threads, Worker, plain_training

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.wire import OPEN_GATE, PIECE_BYTES, Header, Kind

HIDDEN = 1201  # 5.9 MB


class RecordingGate:
    """Counts; a secondary one is promoted after so many pieces."""

    def __init__(self, chunked: bool = False, promoted_after: int | None = None) -> None:
        self._chunked = chunked
        self._promoted_after = promoted_after
        self._lock = threading.Lock()
        self.asked = 0
        self.moves = 0

    @property
    def chunked(self) -> bool:
        promoted = self._promoted_after is not None and self.asked >= self._promoted_after
        return self._chunked and not promoted

    def before_chunk(self) -> None:
        with self._lock:
            self.asked += 1

    def moved(self) -> None:
        with self._lock:
            self.moves += 1


@pytest.fixture
def worker(servers: Threads) -> Worker:
    worker = Worker(servers.start(2), "SGD", hidden=HIDDEN, lr=0.1)
    worker.client.initialise()
    worker.client.sync(0)
    return worker


def model_bytes(worker: Worker) -> int:
    return sum(parameter.nbytes for parameter in worker.model.parameters())


def test_a_secondary_transfer_asks_each_server_for_a_sixteenth_at_a_time(worker: Worker) -> None:
    pull, push = RecordingGate(chunked=True), RecordingGate(chunked=True)
    moved = worker.client.pull(pull).bytes_moved
    assert worker.client.push(0, push) > model_bytes(worker)
    assert moved >= model_bytes(worker)
    for gate in (pull, push):
        assert 2 * 16 <= gate.asked <= 2 * 18
        assert gate.moves >= gate.asked


def test_a_primary_transfer_asks_seldom_and_says_that_it_moves(worker: Worker) -> None:
    gate = RecordingGate()
    worker.client.pull(gate)
    assert gate.asked == 2
    assert gate.moves >= model_bytes(worker) // PIECE_BYTES


def test_a_transfer_that_becomes_primary_stops_asking(worker: Worker) -> None:
    gate = RecordingGate(chunked=True, promoted_after=4)
    worker.client.pull(gate)
    assert 4 <= gate.asked <= 6


def test_losses_do_not_depend_on_how_bytes_move(servers: Threads) -> None:
    worker = Worker(servers.start(2), "Adam", hidden=HIDDEN, lr=0.01)
    worker.client.initialise()
    losses = []
    for iteration in range(3):
        worker.client.sync(iteration)
        worker.client.pull(RecordingGate(chunked=True, promoted_after=iteration * 3))
        losses.append(worker.compute(iteration))
        worker.client.push(iteration, RecordingGate(chunked=True, promoted_after=iteration * 3))
    assert losses == plain_training(3, 1, "Adam", hidden=HIDDEN, lr=0.01)[0][0]


@given(st.lists(st.integers(0, 5000), max_size=8), st.booleans())
def test_any_number_of_pieces_arrives_as_their_concatenation(
    sizes: list[int], chunked: bool
) -> None:
    payload = [memoryview(bytes([index]) * size) for index, size in enumerate(sizes)]
    near, far = socket.socketpair()
    with near, far:
        gate = RecordingGate(chunked)
        wire.send_message(near, Header(Kind.PUSH, iteration=3), b"meta", payload, gate)
        header = wire.receive_header(far)
        assert (header.kind, header.iteration) == (Kind.PUSH, 3)
        assert wire.receive_bytes(far, header.meta_bytes) == b"meta"
        assert wire.receive_bytes(far, header.payload_bytes) == b"".join(payload)


def test_more_tensors_than_one_system_call_takes_arrive(servers: Threads) -> None:
    model = torch.nn.ParameterList(torch.full((3,), float(index)) for index in range(2500))
    worker = Worker(servers.start(), "SGD", model=model, lr=1.0)
    worker.client.initialise()
    worker.client.sync(0)
    for index, parameter in enumerate(model):
        parameter.grad = torch.full((3,), float(index))
    worker.client.push(0, OPEN_GATE)
    worker.client.sync(1)
    worker.client.pull(OPEN_GATE)
    assert all(torch.equal(parameter, torch.zeros(3)) for parameter in model)


def test_a_sparse_gradient_is_refused_with_a_way_out(servers: Threads) -> None:
    model = torch.nn.Embedding(10, 3, sparse=True)
    worker = Worker(servers.start(), "SGD", model=model, lr=1.0)
    worker.client.initialise()
    worker.client.sync(0)
    model(torch.tensor([1])).sum().backward()
    with pytest.raises(TypeError, match="must be a sparse table of the job"):
        worker.client.push(0, OPEN_GATE)


def test_parameters_in_half_precision_move_and_train(servers: Threads) -> None:
    model = torch.nn.Sequential(torch.nn.Linear(5, 3).bfloat16(), torch.nn.Linear(3, 2))
    plain = [parameter.detach().clone() for parameter in model.parameters()]
    worker = Worker(servers.start(2), "SGD", model=model, lr=0.5)
    worker.client.initialise()
    worker.client.sync(0)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    worker.client.push(0, OPEN_GATE)
    worker.client.sync(1)
    worker.client.pull(OPEN_GATE)
    for before, after in zip(plain, model.parameters(), strict=True):
        assert torch.equal(after, before - 0.5)
