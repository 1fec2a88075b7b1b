"""Servers of a job, ended with the test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from hypothesis import settings
from parameter_server_job import Processes, Threads

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """Compute as a server does, whatever ran before."""
    torch.set_num_threads(1)


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[Threads]:
    running = Threads(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    running = Processes(tmp_path)
    yield running
    running.stop()
