"""What a user can get wrong about a run ends in a sentence that says what to change."""

import signal
from pathlib import Path
from typing import Any

import pytest

from local_run_harness import LocalRun, container, harmony_run, manifest, wait_for

pytestmark = pytest.mark.training


def program(name: str, code: str, *, working_dir: str | None = None, **spec: Any) -> dict[str, Any]:
    """A job that runs a line of Python; it needs no training to go wrong."""
    job = manifest(name, **spec)
    more = {"workingDir": working_dir} if working_dir else {}
    job["spec"]["workers"]["template"]["spec"]["containers"] = [
        container(["python", "-c", code], **more)
    ]
    return job


def states(run: LocalRun) -> dict[str, str]:
    record = run.record()
    assert record is not None
    return {job.name: job.state for job in record.jobs}


def test_a_job_wider_than_the_machine_is_refused(tmp_path: Path) -> None:
    with harmony_run(tmp_path, manifest("wide", workers=2), options=("--slots", "1")) as run:
        assert run.finish() == 2
        assert "wide.yaml:1: spec.workers: 2 workers need as many slots" in run.output()


def test_a_run_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with harmony_run(tmp_path, manifest("job"), options=("--run-folder", "file/run")) as run:
        assert run.finish() == 2
        assert "cannot be made" in run.output()
    with harmony_run(tmp_path, options=("--resume", str(tmp_path / "file"))) as again:
        assert again.finish() == 2
        assert "is no run that can be resumed" in again.output()


def test_a_folder_that_holds_something_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "precious").write_text("")
    with harmony_run(tmp_path, manifest("job")) as run:
        assert run.finish() == 2
        assert "is not empty" in run.output()
    assert [path.name for path in (tmp_path / "run").iterdir()] == ["precious"]


def test_a_comparison_folder_is_resumed_by_one_of_its_runs(tmp_path: Path) -> None:
    (tmp_path / "both" / "shared").mkdir(parents=True)
    (tmp_path / "both" / "shared" / "run.json").write_text("{}")
    with harmony_run(tmp_path, options=("--resume", str(tmp_path / "both"))) as run:
        assert run.finish() == 2
        assert "resume one of the runs in it: shared" in run.output()


def test_an_interrupted_program_is_stopped_and_not_failed(tmp_path: Path) -> None:
    code = "import signal; print('up', flush=True); signal.pause()"
    sleeper = program("sleeper", code, failurePolicy={"backoffLimit": 0})
    with harmony_run(tmp_path, sleeper) as run:
        log = run.folder / "jobs" / "sleeper" / "worker-0.log"
        wait_for(lambda: log.exists() and "up" in log.read_text(), "start", while_running=run)
        run.process.send_signal(signal.SIGINT)
        assert run.finish() == 130, run.output()
        assert states(run) == {"sleeper": "Stopped"}


def test_a_program_that_stops_unasked_spends_its_tries(tmp_path: Path) -> None:
    job = program("quitter", "raise SystemExit(75)", failurePolicy={"backoffLimit": 1})
    with harmony_run(tmp_path, job) as run:
        assert run.finish() == 1
        assert states(run) == {"quitter": "Failed"}


def test_a_program_in_its_own_folder_still_writes_to_the_run_folder(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    code = "import os; print(os.path.dirname(os.environ['HARMONY_LOSS_LOG']))"
    job = program("settled", code, working_dir=str(elsewhere))
    with harmony_run(tmp_path, job, options=("--run-folder", "relative")) as run:
        assert run.finish() == 0, run.output()
    written = (tmp_path / "relative" / "jobs" / "settled" / "worker-0.log").read_text()
    assert written.strip() == str(tmp_path / "relative" / "jobs" / "settled")


def test_a_server_that_cannot_be_executed_fails_its_job_alone(tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("no interpreter is named here")
    script.chmod(0o755)
    broken = manifest("broken")
    broken["spec"]["parameterServers"]["template"] = {
        "spec": {"containers": [{"name": "server", "command": [str(script)]}]}
    }
    neighbour = manifest("neighbour", program="digits_mlr.py", arguments=(), iterations=20)
    with harmony_run(tmp_path, broken, neighbour) as run:
        assert run.finish() == 1, run.output()
        assert states(run) == {"broken": "Failed", "neighbour": "Succeeded"}


def test_a_comparison_goes_on_after_a_job_has_failed(tmp_path: Path) -> None:
    job = program("hopeless", "raise SystemExit(1)", failurePolicy={"backoffLimit": 0})
    with harmony_run(tmp_path, job, options=("--compare",)) as run:
        assert run.finish() == 1
        found = sorted(path.name for path in run.folder.iterdir() if path.is_dir())
        assert found == ["dedicated", "naive", "shared"]
