"""What the operator takes for a thousand jobs: time to their pods, memory, and requests.

A real API server; the operator is a process of its own. Jobs of one server and two workers
arrive evenly over a minute, with profile hints, on CPU slots of nodes that do not exist but
run every pod at once, with room for all. From the moment in which the API server has accepted
a job to the moment in which a watch has brought the last of its three pods. Then, while all
jobs run and nothing happens, no write may come from the operator; renewals of its Lease are
left out.

All of it shares the machine, so what a job costs each process decides how fast jobs can come:
their processor time is in the details.
"""

import asyncio
import contextlib
import gc
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kopf
from prometheus_client.parser import text_string_to_metric_families

from harmony_operator.api_client import ApiClient
from harness import Figure, environment, parse_options, report

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from cluster import binaries  # noqa: E402
from cluster.api_server import ApiServer  # noqa: E402
from cluster.local_api_server import local_api_server  # noqa: E402
from cluster.stub_nodes import StubNodes  # noqa: E402

NAMESPACE = "jobs"
JOBS, ARRIVAL_SECONDS, QUIET_SECONDS = 1000, 60.0, 60.0
QUICK_JOBS, QUICK_ARRIVAL_SECONDS, QUICK_QUIET_SECONDS = 150, 9.0, 10.0
NODES = 20
PODS_PER_JOB = 3
LONGEST_SECONDS = 300.0
WRITES = ("create", "patch", "delete")


@dataclass(frozen=True)
class Round:
    """What one round measured."""

    seconds: list[float]
    """From a job's creation to its last pod."""
    rss_bytes: float
    requests_per_job: float
    writes_per_job: float
    cpu_seconds_per_job: float
    """Of the operator, until it came to rest."""
    steady_state_writes: float
    requests: Mapping[str, float]
    """Per job, by verb and kind."""
    all_cpu_seconds: Mapping[str, float]
    """Per job, by process, of the operator and of all that it needs here."""


def main() -> int:
    options = parse_options(__doc__ or "", rounds=3)
    gc.disable()  # to look through the pods that the watch brought would stop the clock
    jobs, arrival, quiet = (
        (QUICK_JOBS, QUICK_ARRIVAL_SECONDS, QUICK_QUIET_SECONDS)
        if options.quick
        else (JOBS, ARRIVAL_SECONDS, QUIET_SECONDS)
    )
    binaries.ensure(binaries.API_SERVER_PROGRAMS, binaries.API_SERVER_TOOLS, print)
    rounds = [measure(jobs, arrival, quiet) for _ in range(options.rounds)]
    cuts = [statistics.quantiles(one.seconds, n=100) for one in rounds]
    figures = [
        Figure.of("operator.create_to_pods_p50_seconds", [one[49] for one in cuts], "s"),
        Figure.of("operator.create_to_pods_p99_seconds", [one[98] for one in cuts], "s"),
        Figure.of("operator.rss_bytes", [one.rss_bytes for one in rounds], "B"),
        Figure.of("operator.requests_per_job", [one.requests_per_job for one in rounds]),
        Figure.of("operator.writes_per_job", [one.writes_per_job for one in rounds]),
        Figure.of("operator.cpu_seconds_per_job", [one.cpu_seconds_per_job for one in rounds], "s"),
        Figure.of("operator.steady_state_writes", [one.steady_state_writes for one in rounds]),
    ]
    details = {
        "jobs": jobs,
        "arrival_seconds": arrival,
        "quiet_seconds": quiet,
        "requests_per_job": dict(rounds[-1].requests),
        "cpu_seconds_per_job": dict(rounds[-1].all_cpu_seconds),
    }
    where = environment("kopf", "aiohttp", "pydantic")
    report("operator_scale", figures, options, where=where, details=details)
    return 0


def measure(jobs: int, arrival_seconds: float, quiet_seconds: float) -> Round:
    """Let the jobs arrive at a fresh API server and look at what the operator does."""
    with (
        tempfile.TemporaryDirectory(prefix="operator-scale-") as folder,
        local_api_server() as server,
    ):
        for definition in sorted((ROOT / "crds").glob("*.yaml")):
            server.kubectl("apply", "--server-side", "--filename", str(definition))
            server.kubectl("wait", "--for=condition=Established", "--filename", str(definition))
        server.kubectl("create", "namespace", NAMESPACE)
        names = [f"node-{number:03}" for number in range(NODES)]
        with StubNodes(server, names) as nodes, operator(server, jobs, Path(folder)) as process:
            used_before = cpu_seconds_by_process()
            created = asyncio.run(create_jobs(server, jobs, arrival_seconds))
            await_pods(nodes, jobs)
            seconds = [
                max(nodes.first_seen_seconds[NAMESPACE, pod] for pod in pods_of(name)) - at
                for name, at in created.items()
            ]
            await_rest(process)
            before, used = process.requests(), cpu_seconds_by_process()
            cpu_seconds = process.cpu_seconds()
            time.sleep(quiet_seconds)
            after = process.requests()
            return Round(
                seconds=seconds,
                rss_bytes=process.rss_bytes(),
                requests_per_job=sum(before.values()) / jobs,
                writes_per_job=writes(before) / jobs,
                cpu_seconds_per_job=cpu_seconds / jobs,
                steady_state_writes=writes(after) - writes(before),
                requests={" ".join(key): count / jobs for key, count in sorted(before.items())},
                all_cpu_seconds={
                    name: (total - used_before.get(name, 0.0)) / jobs
                    for name, total in used.items()
                },
            )


async def create_jobs(server: ApiServer, jobs: int, seconds: float) -> dict[str, float]:
    """Create the jobs evenly over the time; return when each was accepted."""
    client = ApiClient(
        lambda: kopf.ConnectionInfo(
            server=server.url, ca_path=str(server.certificate_authority), token=server.token
        )
    )
    created: dict[str, float] = {}
    start = time.monotonic()

    async def create(number: int) -> None:
        await asyncio.sleep(start + number * seconds / jobs - time.monotonic())
        name = f"job-{number:04}"
        await client.create(manifest(name))
        created[name] = time.monotonic()

    try:
        await asyncio.gather(*(create(number) for number in range(jobs)))
    finally:
        await client.close()
    return created


def manifest(name: str) -> dict[str, Any]:
    container = {
        "name": "worker",
        "image": "train",
        "command": ["python", "train.py"],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "workers": {"replicas": 2, "template": {"spec": {"containers": [container]}}},
            "profile": {
                "computeMilliseconds": 120,
                "pullMilliseconds": 40,
                "pushMilliseconds": 40,
            },
        },
    }


def pods_of(job: str) -> tuple[str, ...]:
    return (f"{job}-server-0", f"{job}-worker-0", f"{job}-worker-1")


def await_pods(nodes: StubNodes, jobs: int) -> None:
    """Wait until every job has its pods."""
    deadline = time.monotonic() + LONGEST_SECONDS
    while len(nodes.first_seen_seconds) < PODS_PER_JOB * jobs:
        if time.monotonic() > deadline:
            raise TimeoutError(f"{len(nodes.first_seen_seconds)} pods of {jobs} jobs")
        time.sleep(0.1)


class OperatorProcess:
    """The operator and what it says of itself."""

    def __init__(self, process: subprocess.Popen[bytes], metrics_port: int) -> None:
        self._process = process
        self._metrics = f"http://127.0.0.1:{metrics_port}/metrics"

    def requests(self) -> Mapping[tuple[str, str], float]:
        """Return the requests so far by verb and kind; those for the Lease are left out."""
        with urllib.request.urlopen(self._metrics) as response:
            text = response.read().decode()
        requests: Counter[tuple[str, str]] = Counter()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                verb, kind = sample.labels.get("verb", ""), sample.labels.get("kind", "")
                if sample.name == "harmony_operator_api_requests_total" and kind != "Lease":
                    requests[verb, kind] += int(sample.value)
        return requests

    def cpu_seconds(self) -> float:
        """Return the processor time that it has taken."""
        return cpu_seconds_of(Path(f"/proc/{self._process.pid}"))

    def rss_bytes(self) -> float:
        """Return the resident memory."""
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        kilobytes = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return 1024.0 * int(kilobytes.split()[1])


def cpu_seconds_by_process() -> dict[str, float]:
    """Return the processor time of this process and of its children, by name."""
    found: defaultdict[str, float] = defaultdict(float)
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            parent = (folder / "stat").read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                command = (folder / "cmdline").read_text().split("\0")
                name = "operator" if "harmony_operator" in command else Path(command[0]).name
                found[name] += cpu_seconds_of(folder)
    return {**found, "benchmark and stub nodes": time.process_time()}


def cpu_seconds_of(folder: Path) -> float:
    """Return the processor time of the process whose folder in /proc is given."""
    fields = (folder / "stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def writes(requests: Mapping[tuple[str, str], float]) -> float:
    return sum(count for (verb, _), count in requests.items() if verb in WRITES)


def await_rest(process: OperatorProcess) -> None:
    """Wait until the operator has not written for five seconds."""
    deadline = time.monotonic() + LONGEST_SECONDS
    last, since = writes(process.requests()), time.monotonic()
    while time.monotonic() - since < 5.0:
        if time.monotonic() > deadline:
            raise TimeoutError("the operator keeps writing")
        time.sleep(0.5)
        now = writes(process.requests())
        if now != last:
            last, since = now, time.monotonic()


@contextlib.contextmanager
def operator(server: ApiServer, jobs: int, folder: Path) -> Iterator[OperatorProcess]:
    """Run the operator, and return when it leads."""
    probe_port, metrics_port = free_port(), free_port()
    settings = {
        "SIDECAR_IMAGE": "harmony/sidecar",
        "SERVER_IMAGE": "harmony/worker",
        "SYSTEM_NAMESPACE": NAMESPACE,
        "GPU_BINDING": "none",
        "CPU_SLOTS_PER_NODE": str(2 * jobs // NODES + 1),
        "PROBE_PORT": str(probe_port),
        "METRICS_PORT": str(metrics_port),
    }
    variables = {f"HARMONY_OPERATOR_{name}": value for name, value in settings.items()}
    log = folder / "operator.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", "harmony_operator"],
            env={**os.environ, **variables, "KUBECONFIG": str(server.kubeconfig)},
            stdout=output,
            stderr=output,
        )
    try:
        deadline = time.monotonic() + LONGEST_SECONDS
        while "leading as" not in log.read_text():
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the operator does not start:\n{log.read_text()}")
            time.sleep(0.1)
        yield OperatorProcess(process, metrics_port)
    finally:
        process.terminate()
        process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
