"""Whatever is killed or stopped, the losses are those of an undisturbed run."""

from pathlib import Path

import pytest
from worker_processes import EXAMPLES, JobProcesses, MakeJob

pytestmark = [pytest.mark.training, pytest.mark.kills]

CNN = ("digits_cnn.py", "--iterations", "120", "--channels", "8")
ATTACHED = ("attach_digits.py", "--epochs", "5", "--width", "64")
EXIT_STOPPED = 75


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[int, str]]:
    """Losses of the programs without servers; a batch-normalised model and an attached loop."""
    jobs = [
        JobProcesses(tmp_path_factory.mktemp("alone"), EXAMPLES / program, *arguments)
        for program, *arguments in (CNN, ATTACHED)
    ]
    try:
        for job in jobs:
            job.start_worker()
        for job in jobs:
            job.finish()
        return {Path(job.command[1]).name: job.losses() for job in jobs}
    finally:
        for job in jobs:
            job.end()


def kill_worker(job: JobProcesses, worker: int) -> None:
    assert job.workers[worker].poll() is None, "it ended before it could be killed"
    job.workers[worker].kill()
    job.workers[worker].wait()


@pytest.mark.parametrize("program", [CNN, ATTACHED])
def test_a_killed_worker_is_replaced_and_repeats_its_iteration(
    program: tuple[str, ...], make_job: MakeJob, undisturbed: dict[str, dict[int, str]]
) -> None:
    job = make_job("killed", *program)
    job.start_servers()
    job.start_sidecars()
    job.start_worker()
    for iteration in (20, 60):
        job.wait_for_iteration(iteration)
        kill_worker(job, 0)
        job.start_worker()
    job.finish()
    assert job.losses() == undisturbed[program[0]]


@pytest.mark.parametrize("program", [CNN, ATTACHED])
def test_a_lost_server_takes_the_job_back_to_a_snapshot(
    program: tuple[str, ...], make_job: MakeJob, undisturbed: dict[str, dict[int, str]]
) -> None:
    job = make_job("lost", *program)
    job.start_servers(2, snapshot_interval_seconds=0.1)
    job.start_worker()
    job.wait_for_iteration(10)
    job.wait_for_snapshots()
    job.replace_server(1)
    job.finish()
    assert "starting again" in job.log("worker-0")
    assert job.losses() == undisturbed[program[0]]


@pytest.fixture(scope="module")
def undisturbed_pair(tmp_path_factory: pytest.TempPathFactory) -> list[dict[int, str]]:
    """Losses of two workers that nobody disturbs."""
    job = JobProcesses(tmp_path_factory.mktemp("pair"), EXAMPLES / CNN[0], *CNN[1:])
    try:
        job.start_servers(workers=2)
        for worker in range(2):
            job.start_worker(worker)
        job.finish()
        losses = [job.losses(worker) for worker in range(2)]
    finally:
        job.end()
    assert losses[0] != losses[1]
    return losses


def test_two_workers_end_alike_when_one_loses_its_sidecar_and_the_other_is_killed(
    make_job: MakeJob, undisturbed_pair: list[dict[int, str]]
) -> None:
    job = make_job("killed", *CNN)
    job.start_servers(workers=2)
    job.start_sidecars()
    for worker in range(2):
        job.start_worker(worker)
    job.wait_for_iteration(20)
    job.sidecars[0].kill()
    kill_worker(job, 1)
    job.start_worker(1)
    job.finish()
    assert [job.losses(worker) for worker in range(2)] == undisturbed_pair


def test_a_stop_ends_both_workers_at_one_iteration_and_they_resume_there(
    make_job: MakeJob, undisturbed_pair: list[dict[int, str]]
) -> None:
    job = make_job("stopped", *CNN)
    job.start_servers(workers=2)
    job.start_sidecars()
    for worker in range(2):
        job.start_worker(worker)
    job.wait_for_iteration(20)
    job.plan(1, generation=2, stop=True)
    job.finish(EXIT_STOPPED)
    last = [max(job.losses(worker)) for worker in range(2)]
    assert 20 <= last[0] == last[1] < 119

    job.plan(1, generation=3)
    for worker in range(2):
        job.start_worker(worker)
    job.finish()
    assert [job.losses(worker) for worker in range(2)] == undisturbed_pair


FAILING = {
    "no data today": """
with harmony.connect() as job:
    job.parameter_server(model, torch.optim.SGD, lr=0.1)
    raise OSError("no data today")
""",
    "step(closure) computes within the update": """
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
harmony.attach(model, optimizer)
optimizer.step(lambda: model(torch.zeros(2)))
""",
}


@pytest.mark.parametrize("reason", FAILING)
def test_a_program_that_fails_leaves_its_servers_waiting_for_a_successor(
    reason: str, make_job: MakeJob, tmp_path: Path
) -> None:
    program = tmp_path / "fails.py"
    preamble = "import torch, harmony_worker as harmony\nmodel = torch.nn.Linear(2, 1)\n"
    program.write_text(preamble + FAILING[reason])
    job = make_job("fails", program)
    job.start_servers()
    job.start_worker()
    job.finish(exit_code=1)
    assert reason in job.log("worker-0")
    assert job.servers[0].poll() is None
