"""Whether a job's workers can run on a slot, whoever else is there."""

from collections.abc import Sequence

from harmony_planner import memory
from harmony_planner.snapshot import Job, Slot


def fits(job: Job, slot: Slot) -> bool:
    """Whether one of the job's workers can begin on the slot when it is alone there."""
    return accepts(job, slot) and _holds(job, slot)


def begins_on(job: Job, slot: Slot) -> bool:
    """Whether the job may begin a group there: with none of the slot's GPUs left idle."""
    return accepts(job, slot) and has_its_size(job, slot)


def accepts(job: Job, slot: Slot) -> bool:
    """Whether the job's workers may begin on the slot's node."""
    return slot.node not in job.barred and slot.node not in job.unschedulable


def closed(slots: Sequence[Slot]) -> str | None:
    """Say why nobody new may use all of the slots, or None where anybody may."""
    return next((slot.closed for slot in slots if slot.closed is not None), None)


def has_its_size(job: Job, slot: Slot) -> bool:
    """Whether the job uses all of the slot's GPUs, wherever the slot is."""
    return job.gpus_per_worker == slot.gpus and _holds(job, slot)


def _holds(job: Job, slot: Slot) -> bool:
    kind = (job.gpus_per_worker > 0) == (slot.gpus > 0)
    enough = job.gpus_per_worker <= slot.gpus
    return kind and enough and memory.why_it_does_not_fit([job], slot) is None
