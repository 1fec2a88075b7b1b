"""Why a job is where it is, or waits, in one sentence with its figures.

A plan that nobody can follow is not trusted; the sentences are part of the plan, and show up
in the command line, in the run's record, and in conditions and events on a cluster.
"""

from collections.abc import Sequence

from harmony_planner.arrangement import Arrangement
from harmony_planner.memory import why_it_does_not_fit
from harmony_planner.snapshot import Job, Slot


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
        f"{prediction.slowdown_percent[job.name]:.0f} % slower than alone"
    )
    rounds = arrangement.rounds[job.name]
    return f"{sentence}, {rounds} iterations per cycle" if rounds > 1 else sentence


def waiting_reason(job: Job, slots: Sequence[Slot], refusals: Sequence[str]) -> str:
    """Say why a job waits; `refusals` are those of the places that it could have had."""
    with_gpus = [slot for slot in slots if slot.gpus >= job.gpus_per_worker]
    if len(with_gpus) < job.workers:
        kind = f"slots with {job.gpus_per_worker} GPUs" if job.gpus_per_worker else "slots"
        return f"needs {job.workers} {kind}, there are {len(with_gpus)}"
    too_small = [why for slot in with_gpus if (why := why_it_does_not_fit([job], slot))]
    if len(with_gpus) - len(too_small) < job.workers:
        return too_small[0]
    if not refusals:
        return f"waits until {job.workers} of {len(slots)} slots are free"
    return f"waits for a slot: {'; '.join(dict.fromkeys(refusals))}"


def milliseconds(seconds: float) -> str:
    """Return a time as people read it: `212 ms`, `3.2 ms`."""
    value = 1000 * seconds
    return f"{value:.0f} ms" if value >= 10 else f"{value:.2g} ms"
