"""From the turns of a run to its figures; pure.

Waiting is never work: a permit's wait lies before its turn, and SYNC holds no permit. The
servers' update inside SYNC counts as network time, because another job can compute meanwhile.
The update is what ends a SYNC, so it is taken to fill the SYNC's last `update_ns`.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from harmony_api.sidecar_state import PhaseName, TurnRecord
from harmony_cli.report.groups import summarise_groups
from harmony_cli.report.intervals import Interval, covered, share, total
from harmony_cli.report.measured_profile import measured_profile
from harmony_cli.report.run_folder import JobRun, Run
from harmony_cli.report.summary import (
    DeviceSummary,
    JobSummary,
    NetworkSummary,
    RunSummary,
    WaitSummary,
)
from harmony_cli.run_record import JobRecord, RunRecord

NET_PERMITS = 2
"""A primary and a secondary; per direction of a full-duplex link."""


def summarise(run: Run) -> RunSummary:
    """Return every figure of one run."""
    turns = [turn for job in run.jobs for worker in job.workers for turn in worker.turns]
    origin_ns = min((turn.start_ns for turn in turns), default=0)
    window = shared_window([span for job in run.jobs if (span := job.span())])
    records = {job.name: job for job in run.record.jobs}
    return RunSummary(
        name=run.record.name,
        mode=run.record.mode,
        makespan_seconds=(max((turn.end_ns for turn in turns), default=0) - origin_ns) / 1e9,
        jobs=[_job(run.record, records[job.name], job, origin_ns) for job in run.jobs],
        devices=[_device(run, slot.name) for slot in run.record.slots],
        network=NetworkSummary(
            window_seconds=total(window) / 1e9,
            utilisation=share(map(network_interval, turns), window),
            excesses=_network_excesses(run.record, turns),
        ),
        groups=summarise_groups(run),
        notes=[*run.notes, *(event.text for event in run.record.events if event.warning)],
    )


def shared_window(spans: Sequence[Interval]) -> list[Interval]:
    """Return when at least two of the spans ran together, or when any ran if they never did."""
    return covered(spans, at_least=2) or covered(spans)


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


def compute_turns_by_device(run: Run) -> dict[str, list[tuple[str, TurnRecord]]]:
    """Return every device's COMP turns with their jobs, by start time."""
    device = device_lookup(run.record)
    result: dict[str, list[tuple[str, TurnRecord]]] = {slot.name: [] for slot in run.record.slots}
    for job in run.jobs:
        for worker in job.workers:
            for turn in worker.turns:
                if turn.phase == "COMP":
                    name = device(job.name, worker.index, turn.start_ns)
                    result.setdefault(name, []).append((job.name, turn))
    for turns in result.values():
        turns.sort(key=lambda entry: entry[1].start_ns)
    return result


def _job(run: RunRecord, record: JobRecord, job: JobRun, origin_ns: int) -> JobSummary:
    turns = [turn for worker in job.workers for turn in worker.turns]
    start_ns, end_ns = job.span() or (origin_ns, origin_ns)
    workers = max(1, len(job.workers))
    permit_turns = [turn for turn in turns if turn.phase != "SYNC"]

    def seconds(phases: Iterable[PhaseName]) -> float:
        wanted = set(phases)
        spent = sum(turn.end_ns - turn.start_ns for turn in turns if turn.phase in wanted)
        return spent / workers / 1e9

    def waits(phase: PhaseName) -> float:
        waited = sum(turn.start_ns - turn.requested_ns for turn in turns if turn.phase == phase)
        return waited / workers / 1e9

    steps = [
        after - before
        for worker in job.workers
        for before, after in pairwise(worker.iteration_starts())
    ]
    losses = job.workers[0].losses if job.workers else ()
    return JobSummary(
        name=job.name,
        state=record.state,
        workers=record.workers,
        iterations=max((len(worker.iteration_starts()) for worker in job.workers), default=0),
        total_iterations=record.iterations,
        start_seconds=(start_ns - origin_ns) / 1e9,
        training_seconds=(end_ns - start_ns) / 1e9,
        seconds_per_iteration=statistics.median(steps) / 1e9 if steps else None,
        compute_seconds=seconds(["COMP"]),
        transfer_seconds=seconds(["PULL", "PUSH"]),
        sync_seconds=seconds(["SYNC"]),
        update_seconds=sum(turn.update_ns for turn in turns) / workers / 1e9,
        permit_waits=WaitSummary(
            pull_seconds=waits("PULL"), comp_seconds=waits("COMP"), push_seconds=waits("PUSH")
        ),
        profile=measured_profile(job, run.slots[0].device_kind if run.slots else "cpu"),
        bytes_moved=sum(turn.bytes for turn in turns),
        uncoordinated_turns=sum(not turn.coordinated for turn in permit_turns),
        secondary_turns=sum(turn.secondary for turn in permit_turns),
        revoked_turns=sum(turn.ended_by == "Lease" for turn in permit_turns),
        restarts=sum(record.restarts.values()),
        first_loss=losses[0].loss if losses else None,
        last_loss=losses[-1].loss if losses else None,
    )


def _device(run: Run, name: str) -> DeviceSummary:
    turns = compute_turns_by_device(run)[name]
    spans = [
        (min(turn.start_ns for turn in own), max(turn.end_ns for turn in own))
        for job in run.jobs
        if (own := [turn for owner, turn in turns if owner == job.name])
    ]
    window = shared_window(spans)
    held = [(turn.start_ns, turn.end_ns) for _, turn in turns if turn.coordinated]
    return DeviceSummary(
        name=name,
        window_seconds=total(window) / 1e9,
        compute_utilisation=share(((turn.start_ns, turn.end_ns) for _, turn in turns), window),
        overlaps=len(covered(held, at_least=2)),
    )


def _network_excesses(run: RunRecord, turns: Iterable[TurnRecord]) -> int:
    held = defaultdict[str, list[Interval]](list)
    for turn in turns:
        if turn.phase in ("PULL", "PUSH") and turn.coordinated:
            direction = turn.phase if run.network == "FullDuplex" else "both"
            held[direction].append((turn.start_ns, turn.end_ns))
    return sum(len(covered(intervals, at_least=NET_PERMITS + 1)) for intervals in held.values())
