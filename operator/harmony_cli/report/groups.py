"""Groups of a run: for how long their plan held, and their cycle, predicted and measured; pure."""

import statistics
from collections.abc import Sequence

from harmony_cli.report.activity import training
from harmony_cli.report.intervals import covered, total
from harmony_cli.report.run_folder import Run
from harmony_cli.report.summary import GroupSummary
from harmony_cli.run_record import GroupRecord, PlanRecord

CYCLES_FOR_A_MEDIAN = 3


def summarise_groups(run: Run) -> list[GroupSummary]:
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
    trained = [interval for job, _ in members for interval in training(job.turns)]
    last_ns = max((end for _, end in trained), default=plan.at_ns)
    in_force = (plan.at_ns, last_ns if until_ns is None else until_ns)
    window = covered([*trained, in_force], at_least=len(group.members) + 1)
    starts_and_rounds = [
        (
            [
                start
                for start in (job.workers[0].iteration_starts() if job.workers else ())
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
