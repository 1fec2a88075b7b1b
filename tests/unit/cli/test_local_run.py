"""`harmony run` trains real jobs: sharing changes their speed and never their losses."""

import json
import signal
from pathlib import Path

import pytest

from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from local_run_harness import container, harmony_run, manifest, marked, wait_for

pytestmark = pytest.mark.training

FIRST = manifest("first", iterations=60)
SECOND = manifest("second", program="digits_mlr.py", arguments=(), iterations=80, servers=2)
ITERATIONS = 3_000
"""Of a job that is interrupted on its way: seconds of training."""


def losses_of(tmp_path: Path, mode: str) -> dict[str, dict[int, str]]:
    folder = tmp_path / mode
    folder.mkdir()
    with harmony_run(folder, FIRST, SECOND, options=("--mode", mode)) as run:
        assert run.finish() == 0, run.output()
        return {name: run.losses(name) for name in ("first", "second")}


def test_losses_are_the_same_to_the_last_bit_alone_unplanned_and_shared(tmp_path: Path) -> None:
    alone = losses_of(tmp_path, "dedicated")
    assert len(alone["first"]) == 60
    assert len(alone["second"]) == 80
    assert losses_of(tmp_path, "naive") == alone
    assert losses_of(tmp_path, "shared") == alone


def test_a_shared_run_overlaps_no_computation_and_leaves_nothing_behind(tmp_path: Path) -> None:
    with harmony_run(tmp_path, FIRST, SECOND) as run:
        marker = run.run_marker("first")
        assert run.finish() == 0, run.output()
        turns = [*run.turns("first"), *run.turns("second")]
        record = run.record()
    assert sum(turn.phase == "COMP" for turn in turns) == 60 + 80
    assert overlapping_compute_turns(turns) == []
    assert excessive_network_turns(turns) == []
    assert not marked(marker)
    assert record is not None
    assert {job.state for job in record.jobs} == {"Succeeded"}
    for name in ("summary.json", "timeline.png", "timeline.html", "trace.json"):
        assert (run.folder / name).stat().st_size > 0


def test_jobs_of_two_workers_share_two_slots_without_deadlock(tmp_path: Path) -> None:
    jobs = [
        manifest(name, program="digits_mlr.py", arguments=(), iterations=40, workers=2)
        for name in ("left", "right")
    ]
    with harmony_run(tmp_path, *jobs) as run:
        assert run.finish() == 0, run.output()
        assert len(run.losses("left", 1)) == len(run.losses("right", 0)) == 40


def test_a_command_that_does_not_exist_is_refused_before_anything_starts(tmp_path: Path) -> None:
    broken = manifest("broken")
    broken["spec"]["workers"]["template"]["spec"]["containers"] = [container(["no-such-program"])]
    with harmony_run(tmp_path, FIRST, broken) as run:
        assert run.finish() == 2
        assert "broken.yaml:1: spec.workers.template.spec.containers[0].command" in run.output()
        assert "'no-such-program' does not exist" in run.output()
    assert not run.folder.exists()


def test_a_program_that_exits_at_once_fails_alone_and_shows_its_last_words(tmp_path: Path) -> None:
    hopeless = manifest("hopeless", failurePolicy={"backoffLimit": 1})
    command = ["python", "-c", "raise SystemExit('this program is of no use')"]
    hopeless["spec"]["workers"]["template"]["spec"]["containers"] = [container(command)]
    with harmony_run(tmp_path, hopeless, SECOND) as run:
        assert run.finish() == 1
        assert "this program is of no use" in run.output()
        record = run.record()
    assert record is not None
    states = {job.name: job.state for job in record.jobs}
    assert states == {"hopeless": "Failed", "second": "Succeeded"}
    assert len(run.losses("second")) == 80


def test_a_program_that_never_connects_holds_no_neighbour_up(tmp_path: Path) -> None:
    stranger = manifest("stranger")
    command = ["python", "-c", "import signal; signal.pause()"]
    stranger["spec"]["workers"]["template"]["spec"]["containers"] = [container(command)]
    with harmony_run(tmp_path, stranger, SECOND) as run:
        wait_for(lambda: len(run.losses("second")) == 80, "end of second", while_running=run)
        wait_for(lambda: "has not asked its sidecar" in run.output(), "warning")
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130


def test_an_interrupt_stops_at_an_iteration_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    job = manifest("long", iterations=ITERATIONS)
    with harmony_run(tmp_path, job, options=("--mode", "dedicated")) as run:
        run.until_iteration("long", 30)
        marker = run.run_marker("long")
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.output()
        record = run.record()
        assert not marked(marker)
        assert record is not None
        assert record.jobs[0].state == "Stopped"
        stopped_after = max(run.losses("long"))
    assert stopped_after < ITERATIONS - 1
    with harmony_run(tmp_path, options=("--resume", str(run.folder))) as again:
        assert again.finish() == 0, again.output()
        losses = again.losses("long")
    assert sorted(losses) == list(range(ITERATIONS))
    whole = tmp_path / "whole"
    whole.mkdir()
    with harmony_run(whole, job, options=("--mode", "dedicated")) as uninterrupted:
        assert uninterrupted.finish() == 0
        assert uninterrupted.losses("long") == losses
    log = (run.folder / "jobs" / "long" / "losses-0.jsonl").read_text().splitlines()
    seen = [json.loads(line)["iteration"] for line in log]
    assert seen[stopped_after + 1] == stopped_after + 1, "it went on where it had stopped"


def test_tries_spent_before_a_resume_stay_spent(tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    program = (
        f"import signal; log = open({str(starts)!r}, 'a+'); log.write('x'); log.seek(0); "
        "signal.pause() if len(log.read()) == 2 else exit(1)"
    )
    job = manifest("hopeless", failurePolicy={"backoffLimit": 1})
    job["spec"]["workers"]["template"]["spec"]["containers"] = [
        container(["python", "-c", program])
    ]
    with harmony_run(tmp_path, job) as run:
        wait_for(lambda: "a replacement starts" in run.output(), "first failure")
        wait_for(lambda: starts.read_text() == "xx", "second try", while_running=run)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.output()
    with harmony_run(tmp_path, options=("--resume", str(run.folder))) as again:
        assert again.finish() == 1, again.output()
        assert "no try is left" in again.output()
    assert starts.read_text() == "xxx"


def test_jobs_told_apart_before_a_resume_stay_apart(tmp_path: Path) -> None:
    jobs = [manifest(name, iterations=ITERATIONS) for name in ("first", "second")]
    with harmony_run(tmp_path, *jobs) as run:
        run.until_iteration("first", 5)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.output()
    record = run.record()
    assert record is not None
    planned_before = len(record.plans)
    for job, other in zip(record.jobs, ("second", "first"), strict=True):
        job.separated_from = [other]
    record.write(run.folder)
    with harmony_run(tmp_path, options=("--resume", str(run.folder))) as again:
        assert again.finish() == 0, again.output()
        record = again.record()
    assert record is not None
    later = [group for plan in record.plans[planned_before:] for group in plan.groups]
    assert {len(group.members) for group in later} == {1}
    assert [job.separated_from for job in record.jobs] == [["second"], ["first"]]
