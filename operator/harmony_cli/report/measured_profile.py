"""What one iteration of a job typically costs, from the turns of a whole run; pure.

The sidecars measure the same while a run goes on, from a window of recent turns; a report has
all of them, also those of workers whose sidecars are gone.
"""

import statistics
from collections import defaultdict

from harmony_api.profile import JobProfile
from harmony_api.sidecar_state import TurnRecord
from harmony_cli.report.run_folder import JobRun

WARM_UP_ITERATIONS = 3
"""First iterations that a profile leaves out, where there are enough others."""


def measured_profile(job: JobRun, device_kind: str) -> JobProfile | None:
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
