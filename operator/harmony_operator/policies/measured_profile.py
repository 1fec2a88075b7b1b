"""What an iteration of a job costs, as written in its status: one profile per kind of device.

A profile is written once it rests on enough iterations, and when a part of it has moved by more
than a tenth, so that measuring does not mean writing; plans are made from what is written, and
so do not change either. A sidecar does not know its device: the kind is that of the slot.
"""

from typing import Final

from harmony_api.profile import JobProfile
from harmony_operator.policies.standing import Standing
from harmony_planner.triggers import usable

MOVED_BY: Final = 0.1
NEGLIGIBLE: Final = 0.01
"""Part of an iteration below which a phase is too short to look at."""
MOST_KINDS: Final = 16


def profiles_of(standing: Standing) -> tuple[JobProfile, ...]:
    """Return the profiles that the status should have, the device kinds in order."""
    view = standing.view
    written = {profile.device_kind: profile for profile in view.job.status.profiles}
    uids = {pod.uid for pod in standing.workers}
    measured = [
        profile
        for live in view.live.values()
        if live.pod_uid in uids and (profile := usable(live.profile)) is not None
    ]
    if view.group is not None and view.member is not None and measured:
        kind = view.group.spec.slots[view.member.slot_indices[0]].device_kind
        newest = max(measured, key=lambda one: (one.iterations, one.iteration_seconds))
        if has_moved(written.get(kind), newest):
            written[kind] = newest.model_copy(update={"device_kind": kind})
    return tuple(written[kind] for kind in sorted(written))[:MOST_KINDS]


def has_moved(before: JobProfile | None, now: JobProfile) -> bool:
    """Whether a phase takes another time than before, by more than a tenth."""
    if before is None or not before.iterations:
        return True
    floor = NEGLIGIBLE * max(before.iteration_seconds, now.iteration_seconds)
    return any(
        abs(new - old) > max(MOVED_BY * old, floor)
        for old, new in (
            (before.compute_seconds, now.compute_seconds),
            (before.transfer_seconds, now.transfer_seconds),
            (before.update_seconds, now.update_seconds),
        )
    )
