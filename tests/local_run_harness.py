"""Starts `harmony run` as a user does, watches its run folder, and finds its processes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from harmony_api.sidecar_state import TurnRecord
from harmony_cli.run_record import RunRecord

Value = TypeVar("Value")
EXAMPLES = Path(__file__).parents[1] / "worker_image" / "examples"
PATIENCE_SECONDS = 240.0


def wait_for(
    look: Callable[[], Value | None], what: str, *, while_running: "LocalRun | None" = None
) -> Value:
    """Return the first answer that is not None or False; fail when none comes."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        answer = look()
        if answer is not None and answer is not False:
            return answer
        if while_running is not None and while_running.process.poll() is not None:
            raise AssertionError(f"the run ended before {what}:\n{while_running.output()}")
        time.sleep(0.02)
    detail = while_running.output() if while_running is not None else ""
    raise AssertionError(f"no {what} within {PATIENCE_SECONDS:.0f} s\n{detail}")


def manifest(
    name: str,
    *,
    program: str = "digits_mlp.py",
    arguments: tuple[str, ...] = ("--width", "256"),
    iterations: int = 200,
    workers: int = 1,
    servers: int = 1,
    **spec: Any,
) -> dict[str, Any]:
    """A HarmonyJob as data; JSON is YAML."""
    command = ["python", f"$(HARMONY_EXAMPLES)/{program}", *arguments]
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": name},
        "spec": {
            "iterations": iterations,
            "parameterServers": {"replicas": servers},
            "checkpoint": {"intervalSeconds": 1},
            "workers": {
                "replicas": workers,
                "template": {"spec": {"containers": [container(command)]}},
            },
            **spec,
        },
    }


def container(command: list[str], **more: Any) -> dict[str, Any]:
    """The worker's container, with the examples where the image has them."""
    environment = [{"name": "HARMONY_EXAMPLES", "value": str(EXAMPLES)}]
    return {"name": "worker", "command": command, "env": environment, **more}


@dataclass
class LocalRun:
    """A running `harmony run`."""

    process: subprocess.Popen[str]
    folder: Path
    log: Path
    marker: str = field(default="")

    def output(self) -> str:
        """Everything that was printed so far."""
        return self.log.read_text()

    def record(self) -> RunRecord | None:
        """run.json, or None before there is one."""
        try:
            return RunRecord.read(self.folder)
        except FileNotFoundError:
            return None

    def finish(self) -> int:
        """Wait for the end; return the exit code."""
        return self.process.wait(PATIENCE_SECONDS)

    def losses(self, job: str, worker: int = 0) -> dict[int, str]:
        """Exact losses by iteration; of one that was replayed, the last."""
        path = self.folder / "jobs" / job / f"losses-{worker}.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        return {record["iteration"]: record["hex"] for record in map(_line, lines) if record}

    def turns(self, job: str, worker: int = 0) -> list[TurnRecord]:
        """The recorded turns of one worker."""
        path = self.folder / "jobs" / job / f"turns-{worker}.jsonl"
        return [TurnRecord.model_validate_json(line) for line in path.read_text().splitlines()]

    def until_iteration(self, job: str, iteration: int, worker: int = 0) -> None:
        """Wait until the job has trained that far."""
        wait_for(
            lambda: max(self.losses(job, worker), default=-1) >= iteration,
            f"iteration {iteration} of {job}",
            while_running=self,
        )

    def pid(self, job: str, role: str, index: int = 0) -> int:
        """The process of this run that plays a role."""
        key = "HARMONY_SERVER_INDEX" if role == "server" else "HARMONY_WORKER_INDEX"
        wanted = {f"HARMONY_JOB={job}", f"HARMONY_ROLE={role}", f"{key}={index}"}
        return wait_for(
            lambda: next((p for p, env in _children(self.process.pid) if wanted <= env), None),
            f"{role} {index} of {job}",
            while_running=self,
        )

    def run_marker(self, job: str) -> str:
        """The marker that every process of the run carries."""
        environment = _environment(self.pid(job, "worker"))
        return next(entry for entry in environment if entry.startswith("HARMONY_RUN="))


@contextmanager
def harmony_run(
    tmp_path: Path, *jobs: dict[str, Any], options: tuple[str, ...] = ()
) -> Iterator[LocalRun]:
    """Run jobs in a run folder below `tmp_path`; kills the run on the way out."""
    files = []
    for job in jobs:
        path = tmp_path / f"{job['metadata']['name']}.yaml"
        path.write_text(json.dumps(job))
        files.append(str(path))
    folder = tmp_path / "run"
    if "--resume" not in options and "--run-folder" not in options:
        options = (*options, "--run-folder", str(folder))
    number = len(list(tmp_path.glob("output-*")))
    log = tmp_path / f"output-{number}"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "harmony_cli", "run", *files, *options],
            stdout=output,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "200"},
        )
    try:
        yield LocalRun(process, folder, log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        process.wait()


def marked(marker: str) -> list[int]:
    """Processes that carry a run's marker."""
    return [pid for pid in _pids() if marker in _environment(pid)]


def _children(runner: int) -> Iterator[tuple[int, set[str]]]:
    for pid in _pids():
        try:
            status = Path("/proc", str(pid), "stat").read_text()
        except OSError:
            continue
        if int(status.rpartition(")")[2].split()[1]) == runner:
            yield pid, _environment(pid)


def _pids() -> list[int]:
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _environment(pid: int) -> set[str]:
    try:
        return set(Path("/proc", str(pid), "environ").read_text(errors="replace").split("\0"))
    except OSError:
        return set()


def _line(text: str) -> dict[str, Any] | None:
    try:
        record: dict[str, Any] = json.loads(text)
    except ValueError:
        return None
    return record
