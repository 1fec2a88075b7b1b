"""How far a job is, written at most once a minute."""

from typing import Final

from harmony_api.job import HarmonyJobSpec
from harmony_api.job_status import Progress
from harmony_operator.policies.conditions import time_of
from harmony_operator.policies.standing import Standing

WRITTEN_EVERY_SECONDS: Final = 60.0


def progress_of(standing: Standing, spec: HarmonyJobSpec) -> Progress | None:
    """Return how far the job is; what is written already, while that is young."""
    view = standing.view
    before = view.job.status.progress
    over = standing.ending
    if over is not None and over.succeeded and spec.iterations is not None:
        return _at(spec.iterations, spec, before, view.now_seconds)
    uids = {pod.uid for pod in standing.workers}
    seen = [
        live.iteration
        for index, live in view.live.items()
        if live.pod_uid in uids and index not in standing.succeeded
    ]
    if not seen:
        return before
    written = before.time.timestamp() if before and before.time else float("-inf")
    if over is None and view.now_seconds < written + WRITTEN_EVERY_SECONDS:
        return before
    return _at(min(seen), spec, before, view.now_seconds)


def _at(
    iteration: int, spec: HarmonyJobSpec, before: Progress | None, now_seconds: float
) -> Progress:
    if before is not None and (before.iteration, before.total) == (iteration, spec.iterations):
        return before
    return Progress(iteration=iteration, total=spec.iterations, time=time_of(now_seconds))
