"""Whatever is killed or stopped, the losses are those of an undisturbed run."""

from pathlib import Path

import pytest
from worker_processes import EXAMPLES, JobProcesses, MakeJob, wait_until

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
    wait_until(
        lambda: all(any((job.folder / "snapshots" / f"server-{i}").glob("*")) for i in range(2)),
        "a snapshot on both servers",
    )
    job.replace_server(1)
    job.finish()
    assert "starting again" in job.log("worker-0")
    assert job.losses() == undisturbed[program[0]]


def test_two_workers_end_alike_when_one_is_killed(make_job: MakeJob) -> None:
    jobs = [make_job(name, *CNN) for name in ("undisturbed", "disturbed")]
    for job in jobs:
        job.start_servers(workers=2)
        for worker in range(2):
            job.start_worker(worker)
    disturbed = jobs[1]
    disturbed.wait_for_iteration(20)
    kill_worker(disturbed, 1)
    disturbed.start_worker(1)
    for job in jobs:
        job.finish()
    for worker in range(2):
        assert len(jobs[0].losses(worker)) == 120
        assert disturbed.losses(worker) == jobs[0].losses(worker)
    assert disturbed.losses(0) != disturbed.losses(1)


def test_a_stop_ends_both_workers_at_one_iteration_and_they_resume_there(
    make_job: MakeJob,
) -> None:
    jobs = [make_job(name, *CNN) for name in ("undisturbed", "stopped")]
    for job in jobs:
        job.start_servers(workers=2)
    stopped = jobs[1]
    stopped.start_sidecars()
    for job in jobs:
        for worker in range(2):
            job.start_worker(worker)

    stopped.wait_for_iteration(20)
    stopped.plan(1, generation=2, stop=True)
    stopped.finish(EXIT_STOPPED)
    last = [max(stopped.losses(worker)) for worker in range(2)]
    assert 20 <= last[0] == last[1] < 119

    stopped.plan(1, generation=3)
    for worker in range(2):
        stopped.start_worker(worker)
    for job in jobs:
        job.finish()
    for worker in range(2):
        assert stopped.losses(worker) == jobs[0].losses(worker)


def test_a_killed_sidecar_costs_permits_and_nothing_else(
    make_job: MakeJob, undisturbed: dict[str, dict[int, str]]
) -> None:
    job = make_job("unpermitted", *CNN)
    job.start_servers()
    job.start_sidecars()
    job.start_worker()
    job.wait_for_iteration(20)
    job.sidecars[0].kill()
    job.finish()
    assert job.losses() == undisturbed[CNN[0]]


def test_a_program_that_fails_leaves_its_servers_waiting_for_a_successor(
    make_job: MakeJob, tmp_path: Path
) -> None:
    program = tmp_path / "fails.py"
    program.write_text(
        "import torch, harmony_worker as harmony\n"
        "with harmony.connect() as job:\n"
        "    job.parameter_server(torch.nn.Linear(2, 1), torch.optim.SGD, lr=0.1)\n"
        "    raise OSError('no data today')\n"
    )
    job = make_job("fails", program)
    job.start_servers()
    job.start_worker()
    job.finish(exit_code=1)
    assert "no data today" in job.log("worker-0")
    assert job.servers[0].poll() is None
