"""Short ways to write jobs and slots for the planner's tests."""

from typing import Any

from hypothesis import strategies as st

from harmony_api.profile import JobProfile
from harmony_planner.schedule import Iteration
from harmony_planner.snapshot import Job, Slot


def phases(
    compute: float,
    pull: float,
    push: float,
    update: float = 0,
    *,
    rounds: int = 1,
    workers: int = 1,
) -> Iteration:
    """Return an iteration whose phases are given in milliseconds."""
    return Iteration(
        compute_seconds=compute / 1e3,
        pull_seconds=pull / 1e3,
        push_seconds=push / 1e3,
        update_seconds=update / 1e3,
        rounds=rounds,
        workers=workers,
    )


def profile(
    compute: int, pull: int, push: int, update: int = 0, *, hint: bool = False
) -> JobProfile:
    """Return a profile whose phases are given in milliseconds."""
    return JobProfile(
        iterations=0 if hint else 20,
        compute_microseconds=1000 * compute,
        pull_microseconds=1000 * pull,
        push_microseconds=1000 * push,
        update_microseconds=1000 * update,
    )


def job(name: str, *milliseconds: int, **fields: Any) -> Job:
    """Return a job, measured where milliseconds of its phases are given."""
    fields.setdefault("submitted", ord(name[0]))
    if milliseconds:
        fields.setdefault("profile", profile(*milliseconds))
    return Job(name=name, **fields)


def slots(count: int, **fields: Any) -> tuple[Slot, ...]:
    """Return slots of one node."""
    return tuple(Slot(name=f"slot-{index}", node="node", **fields) for index in range(count))


milliseconds = st.integers(0, 150)

iterations = st.builds(
    phases,
    st.integers(1, 150),
    milliseconds,
    milliseconds,
    milliseconds,
    rounds=st.integers(1, 3),
    workers=st.integers(1, 2),
)
