"""Real sidecars and workers as processes, on a node store in a temporary folder."""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from harmony_api.sidecar_state import SidecarState, TurnPage, TurnRecord
from harmony_worker.permits import PermitClient

Value = TypeVar("Value")
DEADLINE_SECONDS = 20.0


def wait_until(condition: Callable[[], Value], what: str = "the condition") -> Value:
    """Return the first true value of `condition`, or fail after a deadline."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while time.monotonic() < deadline:
        if value := condition():
            return value
        time.sleep(0.005)
    pytest.fail(f"{what} did not come true within {DEADLINE_SECONDS} s")


@dataclass
class SidecarProcess:
    """One sidecar of one worker."""

    job: str
    worker: int
    folder: Path
    environment: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def socket_path(self) -> Path:
        return Path(self.environment["HARMONY_SOCKET"])

    @property
    def port_path(self) -> Path:
        return self.socket_path.with_name(self.socket_path.name + ".port")

    @property
    def log_path(self) -> Path:
        return self.folder / f"sidecar-{self.job}-{self.worker}.log"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "harmony_sidecar"]

    def start(self) -> "SidecarProcess":
        self.port_path.unlink(missing_ok=True)
        with self.log_path.open("ab") as log:
            self.process = subprocess.Popen(
                self.command,
                env=self.environment,
                stdout=log,
                stderr=log,
            )
        wait_until(self.port_path.exists, "the sidecar's port file")
        return self

    def signal(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def stop(self) -> None:
        """Send SIGSTOP, and return when every thread has stopped."""
        self.signal(signal.SIGSTOP)
        assert self.process is not None
        tasks = Path(f"/proc/{self.process.pid}/task")

        def has_stopped() -> bool:
            states = [(task / "stat").read_text().rpartition(")")[2] for task in tasks.iterdir()]
            return all(state.split()[0] == "T" for state in states)

        wait_until(has_stopped, "the stop")

    def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert self.process is not None
        self.process.wait()

    def get(self, path: str) -> bytes:
        url = f"http://127.0.0.1:{self.port_path.read_text()}{path}"
        with urllib.request.urlopen(url, timeout=10) as response:
            return response.read()

    def state(self) -> SidecarState:
        return SidecarState.model_validate_json(self.get("/state"))

    def turns(self) -> list[TurnRecord]:
        turns: list[TurnRecord] = []
        after = 0
        while True:
            page = TurnPage.model_validate_json(self.get(f"/events?after={after}"))
            turns += page.turns
            if not page.turns:
                return turns
            after = page.next_sequence

    def connect(self, *, chunked: bool = True) -> PermitClient:
        return PermitClient.connect(self.socket_path, chunked=chunked)


@dataclass
class Node:
    """The sidecars that share one node store and one plan."""

    folder: Path
    plan: dict[str, object]
    sidecars: dict[str, SidecarProcess] = field(default_factory=dict)

    @property
    def store(self) -> Path:
        return self.folder / "store"

    @property
    def plan_path(self) -> Path:
        return self.folder / "plan.json"

    def write_plan(self, **changes: object) -> None:
        self.plan |= changes
        draft = self.plan_path.with_suffix(".draft")
        draft.write_text(json.dumps(self.plan))
        draft.replace(self.plan_path)

    def add(self, job: str, worker: int = 0, *, plan_path: Path | None = None) -> SidecarProcess:
        """Start one more sidecar."""
        environment = os.environ | {
            "HARMONY_SOCKET": str(self.folder / f"{job}-{worker}.sock"),
            "HARMONY_JOB": job,
            "HARMONY_WORKER_INDEX": str(worker),
            "HARMONY_NODE_STORE": str(self.store),
            "HARMONY_NODE_PLAN": str(plan_path or self.plan_path),
            "HARMONY_HTTP_PORT": "0",
        }
        sidecar = SidecarProcess(job, worker, self.folder, environment)
        self.sidecars[f"{job}/{worker}"] = sidecar
        return sidecar.start()

    def arbiter(self) -> SidecarProcess:
        """The sidecar that is the arbiter, once there is one."""

        def find() -> SidecarProcess | None:
            alive = [s for s in self.sidecars.values() if s.process and s.process.poll() is None]
            return next((sidecar for sidecar in alive if sidecar.state().arbiter), None)

        return wait_until(find, "an arbiter")

    def stop(self) -> None:
        for sidecar in self.sidecars.values():
            if sidecar.process is not None and sidecar.process.poll() is None:
                sidecar.signal(signal.SIGCONT)
                sidecar.kill()


def plan_of(*members: str, compute_seconds: float = 0.01, **fields: object) -> dict[str, object]:
    """A node plan of one device; members such as `a/0` in cyclic order."""
    return {
        "group": "g",
        "generation": 1,
        "devices": ["cpu-0"],
        "members": [
            {
                "job": member.partition("/")[0],
                "worker": int(member.partition("/")[2]),
                "order": order,
                "computeSeconds": compute_seconds,
                "networkSeconds": 0.01,
            }
            for order, member in enumerate(members)
        ],
        **fields,
    }


@dataclass
class WorkerProcess:
    """A small program that asks for permits, in a process of its own."""

    process: subprocess.Popen[str]

    def next_line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def say(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def wait(self) -> int:
        return self.process.wait(timeout=DEADLINE_SECONDS * 3)
