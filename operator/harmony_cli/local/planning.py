"""What the planner is told of a local run."""

from collections.abc import Mapping, Sequence

from harmony_api.job import HarmonyJob
from harmony_api.profile import JobProfile
from harmony_cli.local.slots import Machine
from harmony_planner.snapshot import CurrentGroup, Job, Network, Plan, Slot, Snapshot

NODE = "local"


def expected_profiles(
    jobs: Sequence[HarmonyJob], measured: Mapping[str, JobProfile]
) -> dict[str, JobProfile]:
    """Return what an iteration of each job costs: as measured, else as its manifest says."""
    hints = {job.name: job.spec.profile.to_profile() for job in jobs if job.spec.profile}
    return hints | dict(measured)


def snapshot(
    jobs: Sequence[HarmonyJob],
    machine: Machine,
    profiles: Mapping[str, JobProfile],
    separated: Mapping[str, frozenset[str]],
    last: Plan,
    corrections: Mapping[str, float],
    network: Network,
) -> Snapshot:
    """Return the planner's view of this run; `jobs` are the active ones, in queue order.

    `profiles` are those of `expected_profiles`.
    """
    gpus = any(slot.gpu_uuid is not None for slot in machine.slots)
    current = {m.job: group.name for group in last.groups for m in group.members}
    return Snapshot(
        jobs=tuple(
            _job(
                job,
                submitted,
                profiles.get(job.name),
                separated.get(job.name, frozenset()),
                current.get(job.name),
                gpus=gpus,
            )
            for submitted, job in enumerate(jobs)
        ),
        slots=tuple(
            Slot(
                name=slot.name,
                node=NODE,
                device_kind=slot.device_kind,
                gpus=int(gpus),
                memory_bytes=slot.memory_bytes,
            )
            for slot in machine.slots
        ),
        groups=tuple(
            CurrentGroup(
                name=group.name,
                slots=group.slots,
                correction=corrections.get(group.name, 1.0),
            )
            for group in last.groups
        ),
        network=network,
        servers_share_core=len(machine.transfer_cpus) == 1,
    )


def _job(
    job: HarmonyJob,
    submitted: int,
    profile: JobProfile | None,
    separated_from: frozenset[str],
    current_group: str | None,
    *,
    gpus: bool,
) -> Job:
    sharing = job.spec.sharing
    memory = sharing.device_memory
    return Job(
        name=job.name,
        submitted=submitted,
        workers=job.spec.workers.least,
        gpus_per_worker=max(1, job.spec.workers.gpus_per_worker) if gpus else 0,
        policy=sharing.policy,
        max_slowdown_percent=sharing.max_slowdown_percent,
        footprint_bytes=memory.footprint_bytes if memory else None,
        minimum_bytes=memory.minimum_bytes if memory else None,
        profile=profile,
        separated_from=separated_from,
        current_group=current_group,
    )
