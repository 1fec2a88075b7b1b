"""What a permit costs: its way from one worker to the next, and the memory of a sidecar.

Two jobs with a real sidecar each, placed as the local runner places them; one of the sidecars
is the arbiter, so a permit crosses three process boundaries: worker, sidecar, sidecar, worker.
Both workers compute for a moment under COMP permits of one device, so that each finds the
other waiting. A hand-over lasts from the call of release in one to the return of acquire in
the other. After long turns the same takes longer, since caches and cores have gone cold; that
is shown too. Alone, iterations of fixed work alternate in one process: with everything that the
training SDK does in one (seeds, permits, a loss log, progress), and without any of it.
"""

import contextlib
import hashlib
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import harmony_worker
from harmony_api.worker_protocol import Phase
from harmony_cli.local.slots import cpu_list, divide_cpus
from harmony_worker.permits import PermitClient
from harness import Figure, environment, parse_options, report

HANDOVERS = 10_000
HOLD_NANOSECONDS = 100_000
LONG_HANDOVERS = 200
LONG_HOLD_NANOSECONDS = 20_000_000
ITERATION_SECONDS = 0.020
ITERATIONS = 300
QUICK_ITERATIONS = 60
JOBS = ("one", "other")


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        return work(sys.argv[2], Path(sys.argv[3]), [int(number) for number in sys.argv[4:]])
    options = parse_options(__doc__ or "", rounds=5)
    iterations = QUICK_ITERATIONS if options.quick else ITERATIONS
    p50, p99, long_p50, overhead, memory = [], [], [], [], []
    for _ in range(options.rounds):
        with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
            seconds, rss = measure_handovers(Path(folder), HANDOVERS, HOLD_NANOSECONDS)
        cuts = statistics.quantiles(seconds, n=100)
        p50.append(cuts[49])
        p99.append(cuts[98])
        memory.append(float(rss))
        with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
            seconds, _ = measure_handovers(Path(folder), LONG_HANDOVERS, LONG_HOLD_NANOSECONDS)
        long_p50.append(statistics.median(seconds))
        with tempfile.TemporaryDirectory(prefix="handoff-") as folder:
            overhead.append(measure_alone(Path(folder), iterations))
    figures = [
        Figure.of("handoff.p50_seconds", p50, "s"),
        Figure.of("handoff.p99_seconds", p99, "s"),
        Figure.of("handoff.p50_after_long_turns_seconds", long_p50, "s"),
        Figure.of("handoff.alone_overhead", overhead),
        Figure.of("handoff.sidecar_rss_bytes", memory, "B"),
    ]
    report("handoff", figures, options, where=environment("pydantic", "prometheus-client", "torch"))
    return 0


# ---- in the benchmark's process


def measure_handovers(
    folder: Path, handovers: int, hold_nanoseconds: int
) -> tuple[list[float], int]:
    """Return the seconds of each hand-over, and the larger sidecar's bytes after them."""
    with sidecars(folder, JOBS) as processes:
        start_ns = time.monotonic_ns() + 1_000_000_000
        workers = [
            start_worker(
                "handover", folder, job, start_ns, handovers // len(JOBS), hold_nanoseconds
            )
            for job in JOBS
        ]
        turns = sorted(turn for worker in workers for turn in answer(worker))
        for job in JOBS:
            port = socket_path(folder, job).with_suffix(".sock.port").read_text()
            urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics").read()
        memory = max(resident_bytes(process.pid) for process in processes)
    seconds = []
    for (_, _, released_ns, job), (acquired_ns, asked_ns, _, next_job) in itertools.pairwise(turns):
        if job != next_job and asked_ns < released_ns:
            seconds.append((acquired_ns - released_ns) / 1e9)
    if len(seconds) < handovers // 2:
        raise RuntimeError(f"only {len(seconds)} hand-overs from a worker to one that waited")
    return seconds, memory


def measure_alone(folder: Path, iterations: int) -> float:
    """Return what the SDK adds to an iteration of a job alone, as a share of it."""
    with sidecars(folder, JOBS[:1]):
        plain, managed = answer(start_worker("alone", folder, JOBS[0], iterations))
    return float(statistics.median(managed) / statistics.median(plain) - 1)


@contextlib.contextmanager
def sidecars(folder: Path, jobs: tuple[str, ...]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Start a node of sidecars under one plan, and end it."""
    members = [{"job": job, "worker": 0, "order": order} for order, job in enumerate(jobs)]
    plan = {"group": "benchmark", "generation": 1, "devices": ["cpu"], "members": members}
    (folder / "plan.json").write_text(json.dumps(plan))
    _, transfer_cpus = placement()
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for job in jobs:
            processes.append(
                subprocess.Popen(
                    [*on_cores(transfer_cpus), sys.executable, "-m", "harmony_sidecar"],
                    env=os.environ
                    | {
                        "HARMONY_JOB": job,
                        "HARMONY_SOCKET": str(socket_path(folder, job)),
                        "HARMONY_NODE_STORE": str(folder / "store"),
                        "HARMONY_NODE_PLAN": str(folder / "plan.json"),
                    },
                    stderr=subprocess.DEVNULL,
                )
            )
            deadline = time.monotonic() + 10
            while not socket_path(folder, job).with_suffix(".sock.port").exists():
                if time.monotonic() > deadline or processes[-1].poll() is not None:
                    raise RuntimeError("a sidecar does not start")
                time.sleep(0.01)
        yield processes
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait()


def placement() -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the cores of workers and of sidecars, as in a local run with one slot."""
    machine = divide_cpus(sorted(os.sched_getaffinity(0)), 1)
    return machine.slots[0].compute_cpus, machine.transfer_cpus


def on_cores(cpus: tuple[int, ...]) -> list[str]:
    return ["taskset", "-c", cpu_list(cpus)]


def start_worker(kind: str, folder: Path, job: str, *numbers: int) -> subprocess.Popen[str]:
    compute_cpus, _ = placement()
    return subprocess.Popen(
        [
            *on_cores(compute_cpus),
            *(sys.executable, __file__, "--worker", kind, str(socket_path(folder, job))),
            *map(str, numbers),
        ],
        env=os.environ
        | {
            "HARMONY_JOB": job,
            "HARMONY_SOCKET": str(socket_path(folder, job)),
            "HARMONY_LOSS_LOG": str(folder / f"{job}.losses"),
        },
        stdout=subprocess.PIPE,
        text=True,
    )


def answer(worker: subprocess.Popen[str]) -> Any:
    output, _ = worker.communicate(timeout=300)
    if worker.returncode:
        raise RuntimeError(f"a worker ended with {worker.returncode}")
    return json.loads(output.splitlines()[-1])


def socket_path(folder: Path, job: str) -> Path:
    return folder / f"{job}.sock"


def resident_bytes(pid: int) -> int:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"process {pid} has no memory")


# ---- in a worker's process


def work(kind: str, path: Path, numbers: list[int]) -> int:
    if kind == "alone":
        print(json.dumps(alone(*numbers)))
        return 0
    client = PermitClient.connect(path)
    turns = hand_over(client, path.stem, *numbers)
    client.end()
    print(json.dumps(turns))
    return 0


def hand_over(
    client: PermitClient, job: str, start_ns: int, turns: int, hold_ns: int
) -> list[tuple[int, int, int, str]]:
    """Return (acquired, asked, released, job) of each turn, in ns."""
    result = []
    while time.monotonic_ns() < start_ns:
        time.sleep(0.001)
    for iteration in range(turns):
        asked_ns = time.monotonic_ns()
        grant = client.acquire(Phase.COMP, iteration)
        acquired_ns = time.monotonic_ns()
        if not grant.coordinated:
            raise RuntimeError("a permit was not granted in time")
        while time.monotonic_ns() < acquired_ns + hold_ns:
            pass
        released_ns = time.monotonic_ns()
        client.release(grant)
        result.append((acquired_ns, asked_ns, released_ns, job))
    return result


def alone(iterations: int) -> tuple[list[float], list[float]]:
    """Return the seconds of iterations without and with the SDK, taken in turn."""
    blocks = calibrate(ITERATION_SECONDS / 3)
    plain: list[float] = []
    managed: list[float] = []
    with harmony_worker.connect() as job:
        left = job.iterations(iterations)
        for _ in range(iterations):
            started = time.perf_counter()
            for _ in range(3):
                compute(blocks)
            plain.append(time.perf_counter() - started)
            started = time.perf_counter()
            next(left)
            with job.pull():
                compute(blocks)
            with job.compute():
                compute(blocks)
            job.report(0.0)
            with job.push():
                compute(blocks)
            managed.append(time.perf_counter() - started)
    return plain, managed


_BLOCK = bytes(65536)


def compute(blocks: int) -> None:
    for _ in range(blocks):
        hashlib.sha256(_BLOCK).digest()


def calibrate(seconds: float) -> int:
    """Return how many blocks take that long."""
    rates = []
    for _ in range(10):
        started = time.perf_counter()
        compute(20)
        rates.append((time.perf_counter() - started) / 20)
    return max(1, round(seconds / min(rates)))


if __name__ == "__main__":
    sys.exit(main())
