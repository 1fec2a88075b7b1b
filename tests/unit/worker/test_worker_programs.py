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
