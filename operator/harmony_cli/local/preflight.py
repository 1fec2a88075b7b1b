"""What can be known to fail before anything is started: told at once, for every job."""

import os
from collections.abc import Sequence
from pathlib import Path

from harmony_api.field_errors import FieldPath
from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER, HarmonyJob
from harmony_api.pod_template import PodTemplate
from harmony_cli.local.addresses import JobAddresses
from harmony_cli.local.process_specs import (
    JobPlace,
    ProcessSpec,
    build_server,
    build_worker,
    missing_command,
)
from harmony_cli.local.slots import Machine
from harmony_cli.manifest import Manifest, Problem


def problems(manifests: Sequence[Manifest], machine: Machine) -> list[Problem]:
    """Return what keeps these jobs from starting on this machine."""
    found: list[Problem] = []
    for manifest in manifests:
        job = manifest.job
        found += _room(manifest, machine)
        place = _somewhere(manifest.file.resolve().parent, machine)
        worker = build_worker(job, 0, place, machine.slots[0], os.environ)
        found += _command(manifest, ("spec", "workers"), WORKER_CONTAINER, worker)
        if job.spec.parameter_servers.template is not None:
            server = build_server(job, 0, place, os.environ)
            found += _command(manifest, ("spec", "parameterServers"), SERVER_CONTAINER, server)
    return found


def _room(manifest: Manifest, machine: Machine) -> list[Problem]:
    """Return why the job could never run here, however long it waited."""
    found: list[Problem] = []
    workers, slots = manifest.job.spec.workers, machine.slots
    if workers.least > len(slots):
        message = f"{workers.least} workers need as many slots, and there are {len(slots)}"
        found.append(manifest.problem(("spec", "workers"), f"{message}: see --slots"))
    if any(slot.gpu_uuid for slot in slots) and workers.gpus_per_worker > 1:
        message = "a slot of a local run has one GPU: ask for 1"
        found.append(manifest.problem(("spec", "workers", "gpusPerWorker"), message))
    memory = manifest.job.spec.sharing.device_memory
    sizes = [slot.memory_bytes for slot in slots]
    if memory is not None and all(size and memory.minimum_bytes > size for size in sizes):
        message = f"the minimum ({memory.minimum or memory.footprint}) is above every slot's memory"
        found.append(manifest.problem(("spec", "sharing", "deviceMemory"), message))
    return found


def _command(
    manifest: Manifest, where: FieldPath, container: str, spec: ProcessSpec
) -> list[Problem]:
    template = _template(manifest.job, where)
    index = [c.name for c in template.spec.containers].index(container)
    path = (*where, "template", "spec", "containers", index)
    if (why := missing_command(spec.argv, spec.environment)) is not None:
        return [manifest.problem((*path, "command"), why)]
    directory = spec.working_directory
    if directory is not None and not directory.is_dir():
        return [manifest.problem((*path, "workingDir"), f"'{directory}' is no folder here")]
    return []


def _template(job: HarmonyJob, where: FieldPath) -> PodTemplate:
    if where[-1] == "workers":
        return job.spec.workers.template
    template = job.spec.parameter_servers.template
    if template is None:
        raise ValueError("Harmony's own server has no template")
    return template


def _somewhere(program_folder: Path, machine: Machine) -> JobPlace:
    return JobPlace(
        folder=program_folder,
        sockets=program_folder,
        program_folder=program_folder,
        store=program_folder,
        addresses=JobAddresses(
            workers=("127.0.0.1:1",), servers=("127.0.0.1:1",), scheduler="127.0.0.1:1"
        ),
        transfer_cpus=machine.transfer_cpus,
    )
