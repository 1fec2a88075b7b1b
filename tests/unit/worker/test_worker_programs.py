"""Loops with schedules, several param groups and state of their own, killed or not."""

from pathlib import Path

import pytest
from worker_processes import MakeJob

PROGRAMS = Path(__file__).parent / "programs"


@pytest.mark.training
@pytest.mark.kills
@pytest.mark.parametrize("program", ["rich_attached_loop.py", "carried_state.py"])
def test_a_loop_trains_the_same_alone_and_over_servers_with_a_killed_worker(
    program: str, make_job: MakeJob
) -> None:
    alone, killed = jobs = [make_job(name, PROGRAMS / program) for name in ("alone", "killed")]
    killed.start_servers(2)
    for job in jobs:
        job.start_worker()
    killed.wait_for_iteration(12)
    killed.workers[0].kill()
    killed.workers[0].wait()
    killed.start_worker()
    for job in jobs:
        job.finish()
    assert "Warning" not in killed.log("worker-0")
    assert len(alone.losses()) >= 48
    assert killed.losses() == alone.losses()


@pytest.mark.training
def test_workers_that_may_run_ahead_learn_too(make_job: MakeJob) -> None:
    job = make_job("stale", PROGRAMS / "carried_state.py", "2")
    job.start_servers(2, workers=2)
    for worker in range(2):
        job.start_worker(worker)
    job.finish()
    for worker in range(2):
        losses = [float.fromhex(loss) for loss in job.losses(worker).values()]
        assert len(losses) == 100
        assert sum(losses[-10:]) < 0.5 * sum(losses[:10])


@pytest.mark.training
@pytest.mark.parametrize("form", ["phases", "attached"])
def test_a_worker_that_leaves_by_sys_exit_0_lets_the_others_go_on(
    form: str, make_job: MakeJob
) -> None:
    job = make_job("early", PROGRAMS / "early_end.py", form, "0")
    job.start_servers(workers=2)
    for worker in range(2):
        job.start_worker(worker)
    job.finish()
    assert [len(job.losses(worker)) for worker in range(2)] == [5, 10]


@pytest.mark.training
@pytest.mark.parametrize("form", ["phases", "attached"])
def test_a_worker_that_leaves_by_another_exit_code_is_not_done(
    form: str, make_job: MakeJob
) -> None:
    job = make_job("early", PROGRAMS / "early_end.py", form, "3")
    job.start_servers()
    job.start_worker()
    job.finish(exit_code=3)
    assert job.servers[0].poll() is None, "it waits for a replacement"
    job.start_worker()
    job.finish(exit_code=3)
