"""Why a job is where it is, or waits, in one sentence with its figures.

A plan that nobody can follow is not trusted; the sentences are part of the plan, and show up
in the command line, in the run's record, and in conditions and events on a cluster.
"""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from harmony_planner.arrangement import Arrangement
from harmony_planner.memory import why_it_does_not_fit
from harmony_planner.snapshot import Job, Slot

MOST_REFUSALS: Final = 4
"""In one sentence; of a large cluster there are too many to read."""


def names(items: Sequence[str]) -> str:
    """Return names as in a sentence: `a`, `a and b`, `a, b and c`."""
    *first, last = items
    return f"{', '.join(first)} and {last}" if first else last


def member_reason(
    job: Job, together: Sequence[Job], slots: Sequence[Slot], arrangement: Arrangement | None
) -> str:
    """Say why a job is in a group with these jobs (itself included)."""
    where = names([slot.name for slot in slots])
    others = [other.name for other in together if other.name != job.name]
    if not others:
        why = "it is Exclusive" if job.policy == "Exclusive" else "nobody shares it now"
        return f"alone on {where}: {why}"
    sharing = f"shares {where} with {names(others)}"
    if arrangement is None:
        return f"{sharing} as a probe: its phases are measured while it shares"
    prediction = arrangement.prediction
    basis = "predicted"
    if any(other.profile is not None and not other.profile.iterations for other in together):
        basis = "predicted from hints"
    sentence = (
        f"{sharing}: {basis} cycle {milliseconds(prediction.cycle_seconds)} for "
        f"{milliseconds(prediction.serial_seconds)} in turn, "
        f"{arrangement.slowdown_percent[job.name]:.0f} % slower than alone"
    )
    rounds = arrangement.rounds[job.name]
    return f"{sentence}, {rounds} iterations per cycle" if rounds > 1 else sentence


def why_it_never_fits(
    job: Job, room: Sequence[tuple[Slot, int]], barred: Mapping[str, str] = MappingProxyType({})
) -> str | None:
    """Say why the job could not run even if every slot were free; None where it could.

    `room` has one slot of each kind, and how many there are of it, without those of `barred` nodes.
    """
    gpus = job.gpus_per_worker
    large = [(slot, n) for slot, n in room if slot.gpus >= gpus and (slot.gpus > 0) == (gpus > 0)]
    count = sum(n for _, n in large)
    if count < job.workers:
        kind = f" of {_counted(gpus, 'GPU')}" if gpus else ""
        there = f"there {'is' if count == 1 else 'are'} {count or 'none'}"
        whys = "; ".join(list(dict.fromkeys(barred.values()))[:MOST_REFUSALS])
        may_use = f" that it may use: {whys}" if whys else ""
        return f"needs {_counted(job.workers, 'slot')}{kind}, {there}{may_use}"
    too_small = [(why, n) for slot, n in large if (why := why_it_does_not_fit([job], slot))]
    if count - sum(n for _, n in too_small) < job.workers:
        return too_small[0][0]
    return None


def kept_free(kept_for: Job, count: int, job: Job) -> str:
    """Say what free slots are kept for, to the job itself or to another one."""
    if kept_for.name == job.name:
        return f"{_counted(count, 'slot')} of its {job.workers} {_are(count)} free and kept for it"
    return (
        f"{_counted(count, 'free slot')} {_are(count)} kept for {kept_for.name}, "
        f"which needs {kept_for.workers} and has waited long"
    )


def why_not_there(job: Job, slots: Iterable[Slot]) -> list[str]:
    """Say once for each cause why the job may not begin on slots that would fit it."""
    barred = {slot.node: job.barred.get(slot.node, "") for slot in slots}
    nodes: dict[str, list[str]] = {}
    for node, why in {**barred, **job.unschedulable}.items():
        nodes.setdefault(why, []).append(node)
    return [f"cannot use node {_some(on)}: {why}" for why, on in nodes.items()]


def waiting_reason(
    job: Job, refusals: Sequence[str], preemptor: Job | None, *, outranks: bool
) -> str:
    """Say why a job waits, and for what; `refusals` are those of the places that there are.

    `preemptor` took its place; `outranks` says that jobs of lower priority have slots.
    """
    free = "a slot is" if job.workers == 1 else f"{job.workers} slots are"
    reasons = list(dict.fromkeys(refusals))
    more = f"; and so on for {len(reasons) - MOST_REFUSALS} more" * (len(reasons) > MOST_REFUSALS)
    why = f"waits until {free} free"
    if reasons:
        why += f": {'; '.join(reasons[:MOST_REFUSALS])}{more}"
    if outranks:
        why += "; no job of lower priority has a place in which it could run"
    if preemptor is not None:
        ranks = f"whose priority {preemptor.priority} is above its {job.priority}"
        why = f"made way for {preemptor.name}, {ranks}; {why}"
    return why


def _some(nodes: Sequence[str]) -> str:
    more = len(nodes) - 1
    return f"{nodes[0]} and {more} more" if more else nodes[0]


def _are(count: int) -> str:
    return "is" if count == 1 else "are"


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"


def milliseconds(seconds: float) -> str:
    """Return a time as people read it: `212 ms`, `3.2 ms`."""
    value = 1000 * seconds
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"
