"""Jobs of real processes that end with their test."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from worker_processes import EXAMPLES, JobProcesses, MakeJob


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[MakeJob]:
    """Make jobs by name, program and arguments; nothing of them is left after the test."""
    jobs: list[JobProcesses] = []

    def make(name: str, program: Path | str, *arguments: str) -> JobProcesses:
        jobs.append(JobProcesses(tmp_path / name, EXAMPLES / program, *arguments))
        return jobs[-1]

    yield make
    for job in jobs:
        job.end()
