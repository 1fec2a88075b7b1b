"""How a job's processes are started: pure functions from a manifest to command and environment.

The environment of harmony_api.environment; what a container would get from its image (the
interpreter, the examples' folder) comes from this machine.
"""

import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from harmony_api import environment as names
from harmony_api.command_line import command_line, container_environment
from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER, HarmonyJob
from harmony_api.peer_environment import peer_environment
from harmony_api.pod_template import Container
from harmony_cli.local.addresses import JobAddresses
from harmony_cli.local.slots import LocalSlot, cpu_list

DEFAULT_SNAPSHOT_INTERVAL_SECONDS = 10
SERVER_MODULE = "harmony_worker.parameter_server"
SIDECAR_MODULE = "harmony_sidecar"


@dataclass(frozen=True)
class ProcessSpec:
    """A command and its whole environment."""

    argv: tuple[str, ...]
    environment: Mapping[str, str]
    working_directory: Path | None = None


@dataclass(frozen=True)
class JobPlace:
    """Where a job's files and servers are on this machine."""

    folder: Path
    """jobs/<name> of the run folder."""
    sockets: Path
    """A folder with a short path, for Unix sockets."""
    program_folder: Path
    """Folder of the manifest as the user gave it."""
    store: Path
    """The node's store."""
    addresses: JobAddresses
    transfer_cpus: tuple[int, ...]

    def socket(self, job: str, worker: int) -> Path:
        """The socket of one worker's sidecar."""
        return self.sockets / f"{job}-{worker}"

    def node_plan(self, job: str, worker: int) -> Path:
        """The file that holds the node plan of one worker's sidecar."""
        return self.sockets / f"{job}-{worker}.plan.json"

    def port_file(self, job: str, worker: int) -> Path:
        """The file in which a sidecar writes its HTTP port."""
        return self.sockets / f"{job}-{worker}.port"


def _common(job: HarmonyJob, role: str, base: Mapping[str, str]) -> dict[str, str]:
    workers = job.spec.workers
    common = {key: value for key, value in base.items() if not key.startswith("HARMONY_")}
    common |= {
        "PYTHONUNBUFFERED": "1",
        names.JOB: job.name,
        names.ROLE: role,
        names.WORKERS: str(workers.least),
    }
    if job.spec.iterations is not None:
        common[names.ITERATIONS] = str(job.spec.iterations)
    return common


def build_worker(
    job: HarmonyJob, index: int, place: JobPlace, slot: LocalSlot, base: Mapping[str, str]
) -> ProcessSpec:
    """The worker's own command, with its place among peers, sidecar and servers."""
    cpus = slot.compute_cpus or place.transfer_cpus
    environment = _common(job, "worker", base) | {
        names.WORKER_INDEX: str(index),
        names.SOCKET: str(place.socket(job.name, index)),
        names.SERVERS: ",".join(place.addresses.servers),
        names.LOSS_LOG: str(place.folder / f"losses-{index}.jsonl"),
        "OMP_NUM_THREADS": str(len(cpus)),
        names.EXAMPLES: str(place.program_folder),
        **_peers("worker", index, place),
    }
    if slot.gpu_uuid is not None:
        environment["CUDA_VISIBLE_DEVICES"] = slot.gpu_uuid
    else:
        environment |= {
            "CUDA_VISIBLE_DEVICES": "",
            names.COMPUTE_CPUS: cpu_list(cpus),
            names.TRANSFER_CPUS: cpu_list(place.transfer_cpus),
        }
    return _from_container(job.spec.workers.template.container(WORKER_CONTAINER), environment)


def build_server(
    job: HarmonyJob, index: int, place: JobPlace, base: Mapping[str, str]
) -> ProcessSpec:
    """The job's server: its own where the manifest brings one, otherwise Harmony's."""
    checkpoint = job.spec.checkpoint
    interval_seconds = (
        checkpoint.interval_seconds if checkpoint else DEFAULT_SNAPSHOT_INTERVAL_SECONDS
    )
    environment = _common(job, "server", base) | {
        names.SERVER_INDEX: str(index),
        names.SERVERS: ",".join(place.addresses.servers),
        names.SNAPSHOT_DIRECTORY: str(place.folder / "snapshots" / f"server-{index}"),
        names.SNAPSHOT_INTERVAL_SECONDS: str(interval_seconds),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        names.EXAMPLES: str(place.program_folder),
        **_peers("server", index, place),
    }
    template = job.spec.parameter_servers.template
    if template is None:
        return ProcessSpec((sys.executable, "-m", SERVER_MODULE), environment)
    return _from_container(template.container(SERVER_CONTAINER), environment)


def build_sidecar(
    job: HarmonyJob, index: int, place: JobPlace, base: Mapping[str, str]
) -> ProcessSpec:
    """The sidecar of one worker."""
    environment = _common(job, "sidecar", base) | {
        names.WORKER_INDEX: str(index),
        names.SOCKET: str(place.socket(job.name, index)),
        names.NODE_STORE: str(place.store),
        names.NODE_PLAN: str(place.node_plan(job.name, index)),
        names.HTTP_PORT: "0",
    }
    return ProcessSpec((sys.executable, "-m", SIDECAR_MODULE), environment)


def _peers(role: Literal["worker", "server"], index: int, place: JobPlace) -> dict[str, str]:
    return peer_environment(
        role=role,
        index=index,
        workers=place.addresses.workers,
        servers=place.addresses.servers,
        scheduler=place.addresses.scheduler,
    )


def _from_container(container: Container, base: Mapping[str, str]) -> ProcessSpec:
    environment = container_environment(container, base)
    argv = command_line(container, environment)
    if argv and argv[0] in ("python", "python3"):
        argv[0] = sys.executable
    return ProcessSpec(
        tuple(argv),
        environment,
        Path(container.working_dir) if container.working_dir else None,
    )


def missing_command(argv: Sequence[str], environment: Mapping[str, str]) -> str | None:
    """Say why a command cannot be started, or None when it can."""
    if not argv:
        return "has neither command nor args: without an image, a local run needs a command"
    if shutil.which(argv[0], path=environment.get("PATH", os.defpath)) is None:
        return f"'{argv[0]}' does not exist or is not executable on this machine"
    return None
