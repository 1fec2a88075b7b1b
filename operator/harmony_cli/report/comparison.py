"""The same jobs dedicated, naive and shared: what sharing gained, said plainly; pure.

Times are training times, from a job's first turn to its last, so that starting processes and
importing libraries favours no mode. The bound comes from the dedicated run's phases, in
which nothing interfered. Where there is no gain the verdict says so, and why.
"""

from collections.abc import Mapping, Sequence

from harmony_cli.report.bound import Load, bound_seconds, cycle_bound_seconds, resource_seconds
from harmony_cli.report.figures import summarise
from harmony_cli.report.run_folder import MODES, LossRecord, Run
from harmony_cli.report.summary import (
    ComparisonSummary,
    GroupSummary,
    JobComparison,
    JobSummary,
    RunSummary,
)
from harmony_cli.run_record import Mode

LEAST_GAIN = 0.05
"""A smaller part of the time saved is called no gain."""
SAME = 0.02
"""Relative differences up to this are called none: repeated runs differ by as much."""
LITTLE_ROOM = 1.1
"""A possible speed-up below this leaves nothing for any schedule to gain."""


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
    rounds = group.jobs if group else {}
    loads = [
        Load.of(
            job.profile, job.iterations, rounds.get(job.name, 1), runs["dedicated"].record.network
        )
        for job in alone.values()
        if job.profile
    ]
    bound = bound_seconds(loads) if dedicated_seconds else None
    jobs = [_job(name, runs, summaries) for name in names]
    identical = [job.losses_identical for job in jobs if job.losses_identical is not None]
    summary = ComparisonSummary(
        runs=list(summaries.values()),
        jobs=jobs,
        dedicated_seconds=dedicated_seconds,
        naive_seconds=_makespan(naive),
        together_seconds=together_seconds,
        bound_seconds=bound,
        speedup_over_dedicated=_ratio(dedicated_seconds, together_seconds),
        speedup_over_naive=_ratio(_makespan(naive), together_seconds),
        possible_speedup=_ratio(dedicated_seconds, bound),
        predicted_cycle_seconds=group.predicted_cycle_seconds if group else None,
        measured_cycle_seconds=group.measured_cycle_seconds if group else None,
        losses_identical=all(identical) if identical else None,
        verdict=[],
    )
    return summary.model_copy(update={"verdict": verdict(summary, loads)})


def main_group(run: RunSummary | None) -> GroupSummary | None:
    """Return the group that ran longest, one with a prediction before one without."""
    if run is None or not run.groups:
        return None
    return max(
        run.groups,
        key=lambda group: (group.predicted_cycle_seconds is not None, group.window_seconds),
    )


def verdict(summary: ComparisonSummary, loads: Sequence[Load]) -> list[str]:
    """Return what came out, in sentences, beginning with the gain or the lack of one."""
    sentences = []
    over_dedicated, over_naive = summary.speedup_over_dedicated, summary.speedup_over_naive
    if over_dedicated is not None:
        times = f"{summary.together_seconds:.1f} s instead of {summary.dedicated_seconds:.1f} s"
        if over_dedicated > 1 + LEAST_GAIN:
            possible = summary.possible_speedup or 0
            limit = f"; their phases allow {possible:.2f}" if possible > over_dedicated else ""
            sentences.append(
                f"Together the jobs took {times} one after the other, which is "
                f"{over_dedicated:.2f} times as fast{limit}."
            )
        else:
            sentences.append(
                f"No gain: together the jobs took {times} one after the other. "
                + _why_no_gain(summary, loads)
            )
    if over_naive is not None:
        percent = abs(over_naive - 1) * 100
        if over_naive > 1 + SAME:
            sentences.append(f"That is {percent:.0f} % faster than left to fight.")
        elif over_naive >= 1 - SAME:
            sentences.append(f"Left to fight, they take the same time within {SAME * 100:.0f} %.")
        else:
            sentences.append(f"Left to fight, they were {percent:.0f} % faster.")
    if summary.losses_identical:
        compared = sum(job.compared_losses for job in summary.jobs)
        sentences.append(f"All {compared} losses are the same in every run, bit by bit.")
    sentences += [
        f"The losses of {job.name} differ between the runs."
        for job in summary.jobs
        if job.losses_identical is False
    ]
    return sentences


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


def _why_no_gain(summary: ComparisonSummary, loads: Sequence[Load]) -> str:
    possible = summary.possible_speedup
    if possible is None or not loads:
        return "Without a dedicated run there is no telling why."
    if possible >= LITTLE_ROOM:
        return f"Their phases would allow a speed-up of up to {possible:.2f}."
    filled = cycle_bound_seconds(loads) * (1 - SAME)
    compute, *network = resource_seconds(loads)
    if compute >= filled:
        reason = "computing alone fills the device"
    elif max(network) >= filled:
        reason = "transfers and updates alone fill the network"
    else:
        reason = "one job alone takes nearly all the time"
    return f"There is none to have: {reason}, so at most {possible:.2f} was possible."


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


def _makespan(run: RunSummary | None) -> float | None:
    return run.makespan_seconds or None if run else None


def _ratio(numerator: float | None, denominator: float | None) -> float | None:
    return numerator / denominator if numerator and denominator else None
