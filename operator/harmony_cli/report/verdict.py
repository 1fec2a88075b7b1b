"""What came out of a comparison, in sentences; where there is no gain, that and why; pure."""

from collections.abc import Sequence
from typing import Final

from harmony_cli.report.bound import Load, least_seconds
from harmony_cli.report.summary import ComparisonSummary
from harmony_planner.snapshot import Bound

LEAST_GAIN = 0.05
"""A smaller part of the time saved is called no gain."""
SAME = 0.02
"""Relative differences up to this are called none: repeated runs differ by as much."""
LITTLE_ROOM = 1.1
"""A possible speed-up below this leaves nothing for any schedule to gain."""

WHAT_FILLS: Final[dict[Bound, str]] = {
    "Compute": "computing alone fills the device",
    "Network": "transfers and updates alone fill the network",
    "Servers": "updates alone fill the servers' core",
    "Job": "one job alone takes nearly all the time",
}


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
            sentences.append(f"Left to fight, they took {percent:.0f} % less time.")
    shared = summary.run("shared")
    sentences += [
        f"The {run.mode} and the shared run did not do the same iterations: their times do not "
        "compare."
        for run in summary.runs
        if shared and run.work != shared.work
    ]
    if summary.losses_identical:
        compared = sum(job.compared_losses for job in summary.jobs)
        sentences.append(f"All {compared} losses are the same in every run, bit by bit.")
    sentences += [
        f"The losses of {job.name} differ between the runs."
        for job in summary.jobs
        if job.losses_identical is False
    ]
    return sentences


def _why_no_gain(summary: ComparisonSummary, loads: Sequence[Load]) -> str:
    possible = summary.possible_speedup
    if possible is None or not loads:
        return "Their phases do not tell why."
    if possible >= LITTLE_ROOM:
        return f"Their phases would allow a speed-up of up to {possible:.2f}."
    reason = WHAT_FILLS[least_seconds(loads)[1]]
    return f"There is none to have: {reason}, so at most {possible:.2f} was possible."
