"""Slots for jobs: who has one keeps it, and nobody has more than its part."""

from collections import Counter
from collections.abc import Mapping, Sequence

from harmony_simulator.policy import JobState


def place(
    chosen: Sequence[JobState],
    before: Mapping[str, tuple[int, ...]],
    slots: Sequence[int],
    jobs_per_slot: int = 1,
) -> dict[str, tuple[int, ...]]:
    """Return slots of the chosen jobs: those of before where they still work, else the emptiest.

    A job has each of its workers on another slot. There must be room for all of them.
    """
    working = set(slots)
    used = Counter[int]()
    places: dict[str, tuple[int, ...]] = {}
    for state in chosen:
        old = before.get(state.job.id)
        if old is not None and working.issuperset(old):
            places[state.job.id] = old
            used.update(old)
    for state in chosen:
        if state.job.id in places:
            continue
        kept = [slot for slot in before.get(state.job.id, ()) if slot in working]
        kept = [slot for slot in kept if used[slot] < jobs_per_slot]
        room = [slot for slot in slots if used[slot] < jobs_per_slot and slot not in kept]
        room.sort(key=used.__getitem__)
        place_ = (*kept, *room[: state.job.gpus - len(kept)])
        if len(place_) == state.job.gpus:
            places[state.job.id] = place_
            used.update(place_)
    return places
