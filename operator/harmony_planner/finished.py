"""From a draft to the group of a plan: order, rounds, memory, and the sentences."""

from collections.abc import Sequence

from harmony_planner import memory, wording
from harmony_planner.draft import Draft
from harmony_planner.snapshot import Group, Job, Member, Slot


def finished(draft: Draft) -> Group:
    """Return the group, with what is expected of it."""
    arrangement = draft.judgement.arrangement
    queued = sorted(draft.jobs, key=lambda job: (job.submitted, job.name))
    rounds = {job.name: 1 for job in queued} if arrangement is None else arrangement.rounds
    by_name = {job.name: job for job in draft.jobs}
    members = []
    for order, (name, turns) in enumerate(rounds.items()):
        job = by_name[name]
        slots = draft.slots[: job.workers]
        members.append(
            Member(
                job=name,
                order=order,
                rounds=turns,
                slots=tuple(slot.name for slot in slots),
                memory_bytes=_share(job, draft, slots),
                reason=wording.member_reason(job, draft.jobs, slots, arrangement),
            )
        )
    return Group(
        name=draft.name,
        slots=tuple(slot.name for slot in draft.slots),
        members=tuple(members),
        prediction=arrangement.prediction if arrangement is not None else None,
    )


def _share(job: Job, draft: Draft, slots: Sequence[Slot]) -> int | None:
    """Return the least share that the job has on any of its slots."""
    shares = []
    for position, slot in enumerate(slots):
        together = [other for other in draft.jobs if other.workers > position]
        shares.append(memory.shares(together, slot)[job.name])
    return min((share for share in shares if share is not None), default=None)
