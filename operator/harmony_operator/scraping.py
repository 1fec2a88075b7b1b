"""Asks the running workers' sidecars how far they are and what an iteration costs.

The answers stay in memory: they are asked for again after a restart. A job is looked at again
only when its status would say something new, so a long training costs no pass per answer.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Final

import aiohttp
from pydantic import ValidationError

from harmony_api.pod_layout import SIDECAR_HTTP_PORT
from harmony_api.sidecar_state import SidecarState
from harmony_operator import metrics
from harmony_operator.mirror import Mirror, job_of
from harmony_operator.observed import LiveWorker, ObjectKey, ObservedPod
from harmony_operator.pod_http import url

ROUND_SECONDS: Final = 3.0
"""From the start of one round of questions to the next, if it is over by then."""
PROGRESS_SECONDS: Final = 60.0
"""A job's status tells its progress at most that often."""
_SILENT_SECONDS: Final = 10.0
"""A sidecar that did not answer is not asked again before."""
_AT_ONCE: Final = 32


class Scraper:
    """Keeps `mirror.live` fresh."""

    def __init__(
        self,
        mirror: Mirror,
        http: aiohttp.ClientSession,
        look_at_job: Callable[[ObjectKey], None],
        wake_planner: Callable[[], None],
    ) -> None:
        self._mirror = mirror
        self._http = http
        self._look_at_job = look_at_job
        self._wake_planner = wake_planner
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self._silent_since: dict[str, float] = {}
        """By pod uid."""
        self._looked_at: dict[ObjectKey, float] = {}

    async def run(self) -> None:
        """Ask around; never returns."""
        while True:
            started = time.monotonic()
            await self.ask_all()
            await asyncio.sleep(max(0.5, started + ROUND_SECONDS - time.monotonic()))

    async def ask_all(self) -> None:
        """Ask every running worker once."""
        running = {
            pod.uid: pod
            for pod in self._mirror.pods.values()
            if pod.role == "worker" and pod.phase == "Running" and pod.ip and not pod.finished
        }
        self._forget_others(running)
        now = time.monotonic()
        answers = await asyncio.gather(
            *(
                self._ask(pod)
                for pod in running.values()
                if now - self._silent_since.get(pod.uid, -_SILENT_SECONDS) >= _SILENT_SECONDS
            )
        )
        for job in {one for one in answers if one is not None}:
            if now - self._looked_at.get(job, -PROGRESS_SECONDS) >= PROGRESS_SECONDS:
                self._looked_at[job] = now
                self._look_at_job(job)
        if any(answers):
            self._wake_planner()

    async def _ask(self, pod: ObservedPod) -> ObjectKey | None:
        """Ask one sidecar; return its job if it answered."""
        job = job_of(pod)
        try:
            async with (
                self._at_once,
                self._http.get(url(pod.ip, SIDECAR_HTTP_PORT, "/state")) as response,
            ):
                response.raise_for_status()
                state = SidecarState.model_validate_json(await response.read())
        except (aiohttp.ClientError, TimeoutError, OSError, ValidationError):
            self._silent_since[pod.uid] = time.monotonic()
            metrics.SCRAPES.labels(outcome="failed").inc()
            return None
        self._silent_since.pop(pod.uid, None)
        metrics.SCRAPES.labels(outcome="answered").inc()
        workers = self._mirror.live.setdefault(job, {})
        before = workers.get(pod.index)
        workers[pod.index] = LiveWorker(
            pod_uid=pod.uid,
            iteration=state.iteration,
            profile=state.profile,
            asked_seconds=time.time(),
            connected=state.connected or state.ended,
            done=state.ended,
        )
        if state.profile is not None and (before is None or before.profile is None):
            self._looked_at.pop(job, None)
        return job

    def _forget_others(self, running: dict[str, ObservedPod]) -> None:
        """Drop the answers of workers that do not run any more."""
        for job, workers in list(self._mirror.live.items()):
            for index, live in list(workers.items()):
                if live.pod_uid not in running:
                    del workers[index]
            if not workers:
                del self._mirror.live[job]
                self._looked_at.pop(job, None)
        for uid in self._silent_since.keys() - running.keys():
            del self._silent_since[uid]
