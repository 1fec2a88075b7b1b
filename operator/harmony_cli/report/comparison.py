"""The same jobs dedicated, naive and shared: what sharing gained, said plainly; pure.

Times are training times, from a job's first turn to its last, so that starting processes and
importing libraries favours no mode. The bound comes from the dedicated run's phases, in
which nothing interfered.
"""

from collections.abc import Mapping, Sequence

from harmony_cli.report.bound import Load, least_seconds
from harmony_cli.report.figures import summarise
from harmony_cli.report.run_folder import MODES, LossRecord, Run
from harmony_cli.report.summary import (
    ComparisonSummary,
    GroupSummary,
    JobComparison,
    JobSummary,
    RunSummary,
)
from harmony_cli.report.verdict import verdict
from harmony_cli.run_record import Mode


def compare(runs: Mapping[Mode, Run]) -> ComparisonSummary:
    """Return the comparison of the given runs; figures that need a missing one are None."""
    summaries = {mode: summarise(runs[mode]) for mode in MODES if mode in runs}
    dedicated, naive = summaries.get("dedicated"), summaries.get("naive")
    shared = summaries.get("shared")
    names = list(dict.fromkeys(job.name for run in summaries.values() for job in run.jobs))
    alone = {job.name: job for job in dedicated.jobs} if dedicated else {}
    dedicated_seconds = (
        sum(alone[name].training_seconds for name in names)
        if names and all(name in alone and alone[name].iterations for name in names)
        else None
    )
    together_seconds = _makespan(shared)
    group = main_group(shared)
    loads = _loads(runs["dedicated"], dedicated) if dedicated else []
    least = least_seconds(loads)[0] if dedicated_seconds and loads else None
    jobs = [_job(name, runs, summaries) for name in names]
    identical = [job.losses_identical for job in jobs if job.losses_identical is not None]
    summary = ComparisonSummary(
        runs=list(summaries.values()),
        jobs=jobs,
        dedicated_seconds=dedicated_seconds,
        naive_seconds=_makespan(naive),
        together_seconds=together_seconds,
        least_seconds=least,
        speedup_over_dedicated=_ratio(dedicated_seconds, together_seconds)
        if dedicated and shared and dedicated.work == shared.work
        else None,
        speedup_over_naive=_ratio(_makespan(naive), together_seconds)
        if naive and shared and naive.work == shared.work
        else None,
        possible_speedup=_ratio(dedicated_seconds, least),
        predicted_cycle_seconds=group.predicted_cycle_seconds if group else None,
        measured_cycle_seconds=group.measured_cycle_seconds if group else None,
        losses_identical=all(identical) if identical else None,
        verdict=[],
    )
    return summary.model_copy(update={"verdict": verdict(summary, loads)})


def main_group(run: RunSummary | None) -> GroupSummary | None:
    """Return the group that ran longest, before all one that was predicted and measured."""

    def weight(group: GroupSummary) -> tuple[bool, float]:
        both = group.predicted_cycle_seconds and group.measured_cycle_seconds
        return bool(both), group.window_seconds

    return max(run.groups, key=weight, default=None) if run else None


def same_losses(runs: Sequence[Mapping[int, str]]) -> tuple[int, bool | None]:
    """Compare exact losses by iteration: how many every run has, and whether they agree.

    The answer is None where fewer than two runs have any.
    """
    recorded = [losses for losses in runs if losses]
    if len(recorded) < 2:
        return 0, None
    common = set(recorded[0]).intersection(*recorded[1:])
    agree = all(len({losses[iteration] for losses in recorded}) == 1 for iteration in common)
    return len(common), agree if common else None


def _job(
    name: str, runs: Mapping[Mode, Run], summaries: Mapping[Mode, RunSummary]
) -> JobComparison:
    jobs: dict[Mode, JobSummary] = {
        mode: job for mode, run in summaries.items() for job in run.jobs if job.name == name
    }
    workers = {
        worker.index
        for run in runs.values()
        for job in run.jobs
        if job.name == name
        for worker in job.workers
    }
    compared = [
        same_losses([_exact(_losses(run, name, worker)) for run in runs.values()])
        for worker in sorted(workers)
    ]
    answers = [answer for _, answer in compared if answer is not None]
    alone, together = jobs.get("dedicated"), jobs.get("shared")
    slowdown = _ratio(
        together.seconds_per_iteration if together else None,
        alone.seconds_per_iteration if alone else None,
    )
    return JobComparison(
        name=name,
        alone_seconds=alone.training_seconds if alone else None,
        naive_seconds=jobs["naive"].training_seconds if "naive" in jobs else None,
        together_seconds=together.training_seconds if together else None,
        slowdown_percent=(slowdown - 1) * 100 if slowdown else None,
        profile=alone.profile if alone else None,
        compared_losses=sum(count for count, _ in compared),
        losses_identical=all(answers) if answers else None,
    )


def _losses(run: Run, name: str, worker: int) -> tuple[LossRecord, ...]:
    for job in run.jobs:
        if job.name == name and worker < len(job.workers):
            return job.workers[worker].losses
    return ()


def _exact(losses: Sequence[LossRecord]) -> dict[int, str]:
    return {loss.iteration: loss.hex for loss in losses}


def _loads(run: Run, summary: RunSummary) -> list[Load]:
    """The jobs' work from the dedicated run; none where they do not all use the same slots."""
    if any(job.workers != len(run.record.slots) for job in summary.jobs):
        return []
    return [
        Load.of(job.profile, job.iterations, 1, run.record.network, job.workers)
        for job in summary.jobs
        if job.profile
    ]


def _makespan(run: RunSummary | None) -> float | None:
    return run.makespan_seconds or None if run else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator and denominator else None
