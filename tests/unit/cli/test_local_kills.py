"""Whatever process of a run is killed or stopped, the losses come out the same.

Neighbours go on, nothing hangs, and the job that was hit goes on from its last state.
"""

import os
import random
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from harmony_api.turn_checks import overlapping_compute_turns
from local_run_harness import LocalRun, harmony_run, manifest, marked, wait_for

pytestmark = [pytest.mark.training, pytest.mark.kills]

ITERATIONS = 250
LEASE_SECONDS = 2.0
STOPPED_SECONDS = 1.5 * LEASE_SECONDS
"""Longer than a lease and an arbiter's take-over together."""
HIT = manifest("hit", iterations=ITERATIONS, servers=2)
NEIGHBOUR = manifest("neighbour", program="digits_mlr.py", arguments=(), iterations=ITERATIONS)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    with harmony_run(tmp_path_factory.mktemp("undisturbed"), HIT, NEIGHBOUR) as run:
        assert run.finish() == 0, run.output()
        return {name: run.losses(name) for name in ("hit", "neighbour")}


@pytest.fixture
def run(tmp_path: Path) -> Iterator[LocalRun]:
    with harmony_run(tmp_path, HIT, NEIGHBOUR) as started:
        started.until_iteration("hit", random.randint(5, 60))
        yield started


def ends_as_if_undisturbed(run: LocalRun, undisturbed: dict[str, dict[int, str]]) -> None:
    assert run.finish() == 0, run.output()
    for name, losses in undisturbed.items():
        assert run.losses(name) == losses, f"losses of {name}\n{run.output()}"
    turns = [*run.turns("hit"), *run.turns("neighbour")]
    assert overlapping_compute_turns(turns) == []


def went_on(run: LocalRun, job: str) -> None:
    """It never stood still until a stopped process went on."""
    ends = sorted(turn.end_ns for turn in run.turns(job))
    longest_seconds = max(after - before for before, after in pairwise(ends)) / 1e9
    assert longest_seconds < STOPPED_SECONDS


def test_a_killed_worker_is_replaced_and_replays(
    run: LocalRun, undisturbed: dict[str, dict[int, str]]
) -> None:
    os.kill(run.pid("hit", "worker"), signal.SIGKILL)
    ends_as_if_undisturbed(run, undisturbed)
    went_on(run, "neighbour")


def test_a_killed_server_rolls_its_job_back(
    run: LocalRun, undisturbed: dict[str, dict[int, str]]
) -> None:
    os.kill(run.pid("hit", "server", 1), signal.SIGKILL)
    ends_as_if_undisturbed(run, undisturbed)
    went_on(run, "neighbour")


@pytest.mark.parametrize("job", ["hit", "neighbour"])
def test_any_killed_sidecar_is_started_again(
    run: LocalRun, undisturbed: dict[str, dict[int, str]], job: str
) -> None:
    first = run.pid(job, "sidecar")
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: run.pid(job, "sidecar") != first, "new sidecar", while_running=run)
    ends_as_if_undisturbed(run, undisturbed)


@pytest.mark.parametrize(
    ("job", "role"),
    [("hit", "worker"), ("hit", "server"), ("hit", "sidecar"), ("neighbour", "sidecar")],
)
def test_a_process_stopped_for_longer_than_a_lease_loses_nothing(
    run: LocalRun, undisturbed: dict[str, dict[int, str]], job: str, role: str
) -> None:
    pid = run.pid(job, role)
    os.kill(pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    ahead = max(run.losses("neighbour"), default=0)
    run.until_iteration("neighbour", min(ahead + 20, ITERATIONS - 1))
    wait_for(lambda: time.monotonic() > stopped_at + STOPPED_SECONDS, "end of a lease")
    os.kill(pid, signal.SIGCONT)
    ends_as_if_undisturbed(run, undisturbed)
    went_on(run, "neighbour" if job == "hit" else "hit")


def test_a_killed_runner_leaves_no_process_and_its_run_goes_on_later(
    run: LocalRun, undisturbed: dict[str, dict[int, str]], tmp_path: Path
) -> None:
    marker = run.run_marker("hit")
    run.process.send_signal(signal.SIGKILL)
    run.process.wait()
    wait_for(lambda: not marked(marker), "end of every process")
    with harmony_run(tmp_path, options=("--resume", str(run.folder))) as again:
        ends_as_if_undisturbed(again, undisturbed)
