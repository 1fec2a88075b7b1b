"""A small job of real processes: servers, a sidecar per worker where wanted, and workers."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from harmony_api.node_plan import NodePlan, PlannedMember

EXAMPLES = Path(__file__).parents[3] / "worker_image" / "examples"
DEADLINE_SECONDS = 200.0


def free_address(host: str = "127.0.0.1") -> str:
    with socket.socket() as probe:
        probe.bind((host, 0))
        return f"{host}:{probe.getsockname()[1]}"


def read_losses(path: Path) -> dict[int, str]:
    """Return the loss of each iteration in hexadecimal; a torn last line is left out."""
    losses: dict[int, str] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        losses[line["iteration"]] = line["hex"]
    return losses


class JobProcesses:
    """The processes of one job, all in one folder."""

    def __init__(self, folder: Path, program: Path, *arguments: str) -> None:
        self.folder = folder
        self.command = [sys.executable, str(program), *arguments]
        self.servers: list[subprocess.Popen[bytes]] = []
        self.sidecars: list[subprocess.Popen[bytes]] = []
        self.workers: dict[int, subprocess.Popen[bytes]] = {}
        self.addresses: list[str] = []
        self._workers_wanted = 1
        folder.mkdir(parents=True, exist_ok=True)

    def start_servers(
        self, servers: int = 1, workers: int = 1, snapshot_interval_seconds: float = 600
    ) -> None:
        self.addresses = [free_address() for _ in range(servers)]
        self._workers_wanted = workers
        self._snapshot_interval_seconds = snapshot_interval_seconds
        self.servers = [self._start_server(index) for index in range(servers)]

    def replace_server(self, index: int) -> None:
        """Kill a server and start an empty one in its place."""
        self.servers[index].kill()
        self.servers[index].wait()
        self.servers[index] = self._start_server(index)

    def start_sidecars(self) -> None:
        store = self.folder / "store"
        store.mkdir(exist_ok=True)
        for worker in range(self._workers_wanted):
            self.plan(worker)
            self.sidecars.append(
                self._start(
                    f"sidecar-{worker}",
                    [sys.executable, "-m", "harmony_sidecar"],
                    HARMONY_WORKER_INDEX=str(worker),
                    HARMONY_SOCKET=str(self.socket(worker)),
                    HARMONY_NODE_STORE=str(store),
                    HARMONY_NODE_PLAN=str(self.folder / f"plan-{worker}.json"),
                    HARMONY_HTTP_PORT="0",
                )
            )
        for worker in range(self._workers_wanted):
            self.wait_until(self.socket(worker).exists, f"the socket of sidecar {worker}")

    def plan(self, worker: int, *, generation: int = 1, stop: bool = False) -> None:
        """Write the node plan of one worker."""
        members = [PlannedMember(job="job", worker=w, order=w) for w in range(self._workers_wanted)]
        plan = NodePlan(
            group="g",
            generation=generation,
            devices=(f"slot-{worker}",),
            members=tuple(members),
            stop=stop,
        )
        path = self.folder / f"plan-{worker}.json"
        path.with_suffix(".new").write_text(plan.model_dump_json(by_alias=True))
        path.with_suffix(".new").replace(path)

    def start_worker(self, worker: int = 0, **environment: str) -> None:
        if self.sidecars:
            environment["HARMONY_SOCKET"] = str(self.socket(worker))
        if self.addresses:
            environment.setdefault("HARMONY_SERVERS", ",".join(self.addresses))
        self.workers[worker] = self._start(
            f"worker-{worker}",
            self.command,
            HARMONY_WORKER_INDEX=str(worker),
            HARMONY_LOSS_LOG=str(self.loss_log(worker)),
            **environment,
        )

    def finish(self, exit_code: int = 0) -> None:
        """Wait until every worker has ended with `exit_code`."""
        for worker, process in self.workers.items():
            self.wait_until(lambda p=process: p.poll() is not None, f"the end of worker {worker}")
            assert process.returncode == exit_code, self.log(f"worker-{worker}")

    def socket(self, worker: int) -> Path:
        return self.folder / f"s{worker}"

    def loss_log(self, worker: int) -> Path:
        return self.folder / f"losses-{worker}.jsonl"

    def losses(self, worker: int = 0) -> dict[int, str]:
        """Return the exact losses so far, by iteration."""
        path = self.loss_log(worker)
        return read_losses(path) if path.exists() else {}

    def wait_for_iteration(self, iteration: int, worker: int = 0) -> None:
        self.wait_until(
            lambda: max(self.losses(worker), default=-1) >= iteration,
            f"iteration {iteration} of worker {worker}",
        )

    def wait_for_snapshots(self) -> None:
        """Wait until every server has written one."""
        folders = [self.folder / "snapshots" / f"server-{i}" for i in range(len(self.servers))]
        self.wait_until(
            lambda: all(any(folder.glob("*")) for folder in folders), "a snapshot on every server"
        )

    def log(self, name: str) -> str:
        """Return what a process printed."""
        return (self.folder / f"{name}.log").read_text()

    def end(self) -> None:
        for process in [*self.workers.values(), *self.sidecars, *self.servers]:
            if process.poll() is None:
                process.send_signal(signal.SIGCONT)
                process.kill()
            process.wait()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Poll until `condition` holds; fails with all logs after DEADLINE_SECONDS."""
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                logs = [f"{log.name}:\n{log.read_text()}" for log in self.folder.glob("*.log")]
                raise AssertionError("\n".join([f"never happened: {what}", *logs]))
            time.sleep(0.01)

    def _start_server(self, index: int) -> subprocess.Popen[bytes]:
        return self._start(
            f"server-{index}",
            [sys.executable, "-m", "harmony_worker.parameter_server"],
            HARMONY_SERVER_INDEX=str(index),
            HARMONY_SERVERS=",".join(self.addresses),
            HARMONY_SNAPSHOT_DIRECTORY=str(self.folder / "snapshots" / f"server-{index}"),
            HARMONY_SNAPSHOT_INTERVAL_SECONDS=str(self._snapshot_interval_seconds),
        )

    def _start(self, name: str, command: list[str], **environment: str) -> subprocess.Popen[bytes]:
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("HARMONY_")}
        with (self.folder / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=inherited
                | {
                    "OMP_NUM_THREADS": "1",
                    "HARMONY_JOB": "job",
                    "HARMONY_WORKERS": str(self._workers_wanted),
                }
                | environment,
            )


MakeJob = Callable[..., JobProcesses]
