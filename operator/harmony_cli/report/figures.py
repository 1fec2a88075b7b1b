"""From the turns of a run to its figures; pure.

Waiting is never work: a permit's wait lies before its turn, and SYNC holds no permit. The
servers' update inside SYNC counts as network time, because another job can compute meanwhile.
"""

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import pairwise

from harmony_api.sidecar_state import PhaseName, TurnRecord
from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from harmony_cli.report.activity import network_interval, shared_window, turns_by_device
from harmony_cli.report.groups import summarise_groups
from harmony_cli.report.intervals import share, total
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


def summarise(run: Run) -> RunSummary:
    """Return every figure of one run."""
    turns = [turn for job in run.jobs for turn in job.turns]
    origin_ns = min((turn.start_ns for turn in turns), default=0)
    window = shared_window(job.turns for job in run.jobs)
    records = {job.name: job for job in run.record.jobs}
    return RunSummary(
        name=run.record.name,
        mode=run.record.mode,
        makespan_seconds=(max((turn.end_ns for turn in turns), default=0) - origin_ns) / 1e9,
        jobs=[_job(run.record, records[job.name], job, origin_ns) for job in run.jobs],
        devices=[_device(name, turns) for name, turns in turns_by_device(run).items()],
        network=NetworkSummary(
            window_seconds=total(window) / 1e9,
            utilisation=share(map(network_interval, turns), window),
            excesses=len(excessive_network_turns(turns, run.record.network)),
        ),
        groups=summarise_groups(run),
        notes=[*run.notes, *(event.text for event in run.record.events if event.warning)],
    )


def _job(run: RunRecord, record: JobRecord, job: JobRun, origin_ns: int) -> JobSummary:
    turns = job.turns
    start_ns = min((turn.start_ns for turn in turns), default=origin_ns)
    end_ns = max((turn.end_ns for turn in turns), default=origin_ns)
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
        iterations=max((worker.iterations for worker in job.workers), default=0),
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


def _device(name: str, turns: Sequence[tuple[str, TurnRecord]]) -> DeviceSummary:
    turns_by_job = defaultdict[str, list[TurnRecord]](list)
    for job, turn in turns:
        turns_by_job[job].append(turn)
    window = shared_window(turns_by_job.values())
    compute = [turn for _, turn in turns if turn.phase == "COMP"]
    return DeviceSummary(
        name=name,
        window_seconds=total(window) / 1e9,
        compute_utilisation=share(((turn.start_ns, turn.end_ns) for turn in compute), window),
        overlaps=len(overlapping_compute_turns(compute)),
    )
