"""From the turns of a run to its figures; pure.

Waiting is never work: a permit's wait lies before its turn, and SYNC holds no permit. The
servers' update inside SYNC counts as network time, because another job can compute meanwhile.
The update is what ends a SYNC, so it is taken to fill the SYNC's last `update_ns`.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

from harmony_api.profile import JobProfile
from harmony_api.sidecar_state import PhaseName, TurnRecord
from harmony_cli.report.intervals import Interval, covered, share, total
from harmony_cli.report.run_folder import JobRun, Run, WorkerRun
from harmony_cli.report.summary import (
    DeviceSummary,
    GroupSummary,
    JobSummary,
    NetworkSummary,
    RunSummary,
    WaitSummary,
)
from harmony_cli.run_record import GroupRecord, JobRecord, PlanRecord, RunRecord

NET_PERMITS = 2
"""A primary and a secondary; per direction of a full-duplex link."""
WARM_UP_ITERATIONS = 3
"""First iterations that a profile leaves out, where there are enough others."""
CYCLES_FOR_A_MEDIAN = 3


def summarise(run: Run) -> RunSummary:
    """Return every figure of one run."""
    turns = [turn for job in run.jobs for worker in job.workers for turn in worker.turns]
    origin_ns = min((turn.start_ns for turn in turns), default=0)
    window = shared_window([span for job in run.jobs if (span := training_span(job))])
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
        groups=_groups(run),
        notes=[*run.notes, *(event.text for event in run.record.events if event.warning)],
    )


def training_span(job: JobRun) -> Interval | None:
    """Return the start of a job's first turn and the end of its last, over all workers."""
    turns = [turn for worker in job.workers for turn in worker.turns]
    if not turns:
        return None
    return min(turn.start_ns for turn in turns), max(turn.end_ns for turn in turns)


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


def cycle_seconds(starts_and_rounds: Sequence[tuple[Sequence[int], int]]) -> float | None:
    """Return the median time in which every member does its rounds.

    Takes per member the sorted start times (ns) of its iterations and its rounds per cycle;
    None where a member shows too few cycles for a median.
    """
    medians = []
    for starts, rounds in starts_and_rounds:
        cycles = [end - start for start, end in zip(starts, starts[rounds:], strict=False)]
        if len(cycles) < CYCLES_FOR_A_MEDIAN:
            return None
        medians.append(statistics.median(cycles))
    return max(medians) / 1e9 if medians else None


def iteration_starts(worker: WorkerRun) -> list[int]:
    """Return when each iteration first computed, in ns; of a replayed one, the last time."""
    starts: dict[int, int] = {}
    previous = None
    for turn in worker.turns:
        if turn.phase == "COMP":
            if turn.iteration != previous:
                starts[turn.iteration] = turn.start_ns
            previous = turn.iteration
    return sorted(starts.values())


def profile(job: JobRun, device_kind: str) -> JobProfile | None:
    """Return the typical phases of a job, over all its workers; None without any iteration.

    Transfers count where they had the link for themselves, so those of secondary permits are
    left out; so are turns that lost their permit, and the first iterations.
    """
    seconds = defaultdict[str, list[int]](list)
    moved = defaultdict[str, list[int]](list)
    iterations = 0
    for worker in job.workers:
        first = min((turn.iteration for turn in worker.turns), default=0)
        last = max((turn.iteration for turn in worker.turns), default=0)
        skipped = WARM_UP_ITERATIONS if last - first >= 2 * WARM_UP_ITERATIONS else 0
        by_iteration = defaultdict[tuple[str, int], list[TurnRecord]](list)
        for turn in worker.turns:
            if turn.iteration >= first + skipped and turn.ended_by == "Release":
                by_iteration[turn.phase, turn.iteration].append(turn)
        for (phase, _), turns in by_iteration.items():
            if phase == "SYNC":
                seconds[phase].append(sum(turn.update_ns for turn in turns))
            elif not any(turn.secondary for turn in turns):
                seconds[phase].append(sum(turn.end_ns - turn.start_ns for turn in turns))
                moved[phase].append(sum(turn.bytes for turn in turns))
        iterations += sum(phase == "COMP" for phase, _ in by_iteration)
    if not iterations:
        return None

    def median(values: list[int], per: int = 1) -> int:
        return round(statistics.median(values) / per) if values else 0

    return JobProfile(
        device_kind=device_kind,
        iterations=iterations,
        compute_microseconds=median(seconds["COMP"], 1000),
        pull_microseconds=median(seconds["PULL"], 1000),
        push_microseconds=median(seconds["PUSH"], 1000),
        update_microseconds=median(seconds["SYNC"], 1000),
        pull_bytes=median(moved["PULL"]),
        push_bytes=median(moved["PUSH"]),
    )


def _job(run: RunRecord, record: JobRecord, job: JobRun, origin_ns: int) -> JobSummary:
    turns = [turn for worker in job.workers for turn in worker.turns]
    start_ns, end_ns = training_span(job) or (origin_ns, origin_ns)
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
        for before, after in pairwise(iteration_starts(worker))
    ]
    losses = job.workers[0].losses if job.workers else ()
    return JobSummary(
        name=job.name,
        state=record.state,
        workers=record.workers,
        iterations=max((len(iteration_starts(worker)) for worker in job.workers), default=0),
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
        profile=profile(job, run.slots[0].device_kind if run.slots else "cpu"),
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


def _groups(run: Run) -> list[GroupSummary]:
    """One entry per group of at least two and stretch of plans that left it as it was."""
    stretches: list[tuple[PlanRecord, GroupRecord, int | None]] = []
    open_stretches: dict[str, int] = {}
    for plan in run.record.plans:
        still_open = {}
        for group in plan.groups:
            index = open_stretches.get(group.name)
            if index is not None and _same(stretches[index][1], group):
                still_open[group.name] = index
            elif len(group.members) > 1:
                still_open[group.name] = len(stretches)
                stretches.append((plan, group, None))
        for name, index in open_stretches.items():
            if still_open.get(name) != index:
                stretches[index] = (*stretches[index][:2], plan.at_ns)
        open_stretches = still_open
    return [_group(run, plan, group, until_ns) for plan, group, until_ns in stretches]


def _same(one: GroupRecord, other: GroupRecord) -> bool:
    return (
        one.slots == other.slots
        and one.prediction == other.prediction
        and [(member.job, member.rounds) for member in one.members]
        == [(member.job, member.rounds) for member in other.members]
    )


def _group(run: Run, plan: PlanRecord, group: GroupRecord, until_ns: int | None) -> GroupSummary:
    jobs = {job.name: job for job in run.jobs}
    members = [(jobs[member.job], member.rounds) for member in group.members if member.job in jobs]
    spans = [span for job, _ in members if (span := training_span(job))]
    last_ns = max((end for _, end in spans), default=plan.at_ns)
    in_force = (plan.at_ns, min(until_ns or last_ns, last_ns))
    window = covered([*spans, in_force], at_least=len(group.members) + 1)
    starts_and_rounds = [
        (
            [
                start
                for start in (iteration_starts(job.workers[0]) if job.workers else ())
                if any(low <= start < high for low, high in window)
            ],
            rounds,
        )
        for job, rounds in members
    ]
    prediction = group.prediction
    return GroupSummary(
        name=group.name,
        generation=plan.generation,
        jobs={member.job: member.rounds for member in group.members},
        slots=group.slots,
        window_seconds=total(window) / 1e9,
        predicted_cycle_seconds=prediction.cycle_seconds if prediction else None,
        measured_cycle_seconds=cycle_seconds(starts_and_rounds),
        serial_cycle_seconds=prediction.serial_seconds if prediction else None,
    )
