"""When jobs trained and on which device, from their turns; pure.

The servers' update is what ends a SYNC, so it is taken to fill the SYNC's last `update_ns`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable

from harmony_api.sidecar_state import TurnRecord
from harmony_cli.report.intervals import Interval, covered
from harmony_cli.report.run_folder import Run
from harmony_cli.run_record import RunRecord

LONGEST_PAUSE_NS = 1_000_000_000
"""A job without any turn for longer was not training: it was stopped, or being replaced."""


def training(turns: Iterable[TurnRecord]) -> list[Interval]:
    """Return when a job trained, from its turns: without the times when it was stopped."""
    reached = covered((turn.requested_ns, turn.end_ns + LONGEST_PAUSE_NS) for turn in turns)
    return [(start, end - LONGEST_PAUSE_NS) for start, end in reached]


def shared_window(turns_by_job: Iterable[Iterable[TurnRecord]]) -> list[Interval]:
    """Return when at least two jobs trained, or when any did if they never met."""
    trained = [interval for turns in turns_by_job for interval in training(turns)]
    return covered(trained, at_least=2) or covered(trained)


def network_interval(turn: TurnRecord) -> Interval:
    """Return when a turn used the network or its servers; empty for COMP."""
    if turn.phase == "SYNC":
        return max(turn.start_ns, turn.end_ns - turn.update_ns), turn.end_ns
    if turn.phase == "COMP":
        return turn.start_ns, turn.start_ns
    return turn.start_ns, turn.end_ns


def device_lookup(record: RunRecord) -> Callable[[str, int, int], str]:
    """Return (job, worker, time in ns) -> slot, by the plan in force at that time."""
    slots_by_job: dict[str, list[tuple[int, list[str]]]] = defaultdict(list)
    for plan in record.plans:
        for group in plan.groups:
            for member in group.members:
                slots_by_job[member.job].append((plan.at_ns, group.slots))
    every_slot = [slot.name for slot in record.slots]

    def device(job: str, worker: int, at_ns: int) -> str:
        slots = every_slot
        for since_ns, planned in slots_by_job[job]:
            if slots is every_slot or since_ns <= at_ns:
                slots = planned
        return slots[worker % len(slots)]

    return device


def turns_by_device(run: Run) -> dict[str, list[tuple[str, TurnRecord]]]:
    """Return, for every device, the turns of the workers on it with their jobs, by start."""
    device = device_lookup(run.record)
    result: dict[str, list[tuple[str, TurnRecord]]] = {slot.name: [] for slot in run.record.slots}
    for job in run.jobs:
        for worker in job.workers:
            for turn in worker.turns:
                name = device(job.name, worker.index, turn.start_ns)
                result.setdefault(name, []).append((job.name, turn))
    for turns in result.values():
        turns.sort(key=lambda entry: entry[1].start_ns)
    return result
