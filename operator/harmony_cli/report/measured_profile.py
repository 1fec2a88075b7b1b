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
    """Return the typical phases of a job, over all its workers; None where one never ran.

    Transfers count where they had the link for themselves; those of secondary permits only as
    long as there are no others, and without the time for which they stood aside. Turns that
    lost their permit are left out, and so are the first iterations.
    """
    alone = defaultdict[str, list[int]](list)
    overlapped = defaultdict[str, list[int]](list)
    moved = defaultdict[str, list[int]](list)
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
                alone[phase].append(sum(turn.update_ns for turn in turns))
                continue
            samples = overlapped if any(turn.secondary for turn in turns) else alone
            spent = sum(turn.end_ns - turn.start_ns - turn.paused_ns for turn in turns)
            samples[phase].append(spent)
            moved[phase].append(sum(turn.bytes for turn in turns))
    nanoseconds = {phase: alone[phase] or overlapped[phase] for phase in ("PULL", "COMP", "PUSH")}
    if not all(nanoseconds.values()):
        return None
    return JobProfile(
        device_kind=device_kind,
        iterations=len(nanoseconds["COMP"]),
        compute_microseconds=_median(nanoseconds["COMP"], per=1000),
        pull_microseconds=_median(nanoseconds["PULL"], per=1000),
        push_microseconds=_median(nanoseconds["PUSH"], per=1000),
        update_microseconds=_median(alone["SYNC"], per=1000) if alone["SYNC"] else 0,
        pull_bytes=_median(moved["PULL"]),
        push_bytes=_median(moved["PUSH"]),
    )


def _median(values: list[int], *, per: int = 1) -> int:
    return round(statistics.median(values) / per)
