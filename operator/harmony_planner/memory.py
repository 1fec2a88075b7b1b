"""Device memory: whether a group fits its slots, and how much each member may hold.

A device is never promised more than it has: the shares of a group add up to at most its
memory, and each is between the member's minimum and its footprint. A job that declares
nothing cannot be counted, so it never shares a device whose memory is known.
"""

from collections.abc import Sequence

from harmony_planner.snapshot import Job, Slot

_UNITS = ("bytes", "KiB", "MiB", "GiB", "TiB")


def why_it_does_not_fit(jobs: Sequence[Job], slot: Slot) -> str | None:
    """Say why the jobs cannot share the slot's memory, or None where they can."""
    if slot.memory_bytes is None:
        return None
    undeclared = [job.name for job in jobs if job.footprint_bytes is None]
    if undeclared and len(jobs) > 1:
        return (
            f"{undeclared[0]} declares no sharing.deviceMemory, so it cannot share "
            f"{slot.name} with {size(slot.memory_bytes)}"
        )
    needed = sum(map(_minimum, jobs))
    if needed > slot.memory_bytes:
        names = " and ".join(job.name for job in jobs)
        return (
            f"{names} cannot be held to less than {size(needed)} of device memory "
            f"(sharing.deviceMemory), {slot.name} has {size(slot.memory_bytes)}"
        )
    return None


def shares(jobs: Sequence[Job], slot: Slot) -> dict[str, int | None]:
    """Return the bytes that each job may hold on the slot while the others hold theirs.

    What is left above the minimums is split in proportion to what each could still use. None:
    not limited, or alone and not declared. Raises ValueError where the jobs do not fit.
    """
    if (why := why_it_does_not_fit(jobs, slot)) is not None:
        raise ValueError(why)
    if slot.memory_bytes is None:
        return {job.name: None for job in jobs}
    wanted = {job.name: (job.footprint_bytes or 0) - _minimum(job) for job in jobs}
    spare = min(slot.memory_bytes - sum(map(_minimum, jobs)), sum(wanted.values()))
    total = max(1, sum(wanted.values()))
    return {
        job.name: None
        if job.footprint_bytes is None
        else _minimum(job) + spare * wanted[job.name] // total
        for job in jobs
    }


def size(count: int) -> str:
    """Return bytes as people write them, as in `1.5 GiB`."""
    value = float(count)
    for unit in _UNITS[:-1]:
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} {_UNITS[-1]}"


def _minimum(job: Job) -> int:
    if job.footprint_bytes is None:
        return 0
    return job.footprint_bytes if job.minimum_bytes is None else job.minimum_bytes
