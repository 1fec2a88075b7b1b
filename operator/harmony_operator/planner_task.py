"""The one task that plans: it alone changes groups, so plans never compete.

It is woken by whatever a plan may rest on, and wakes are coalesced: during a pass and the
pause after it any number of them become one more pass. What a group's status says is for people:
it is written beside the passes, one after the other.
"""

import asyncio
import itertools
import logging
import time
from collections.abc import Callable
from typing import Final

from harmony_operator import metrics
from harmony_operator.actions import Create, ReplaceGroupStatus, Step
from harmony_operator.api_client import ApiError
from harmony_operator.applying import Applier, StepError
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.planning.planning_pass import planning_pass
from harmony_operator.settings import OperatorSettings

LONGEST_SILENCE_SECONDS: Final = 120.0
"""A planner that has not ended a pass for so long hangs."""
_IDLE_SECONDS: Final = 30.0
"""Without any wake there is a pass all the same."""
_SHORTEST_PAUSE_SECONDS: Final = 0.25
_PAUSE_RATIO: Final = 3.0
"""So that planning takes a quarter of the time at most, and reconciling has the rest."""
_RETRY_SECONDS: Final = 2.0
_AT_ONCE: Final = 16

_logger = logging.getLogger(__name__)


class PlannerTask:
    """Plans, and writes the groups."""

    def __init__(
        self,
        mirror: Mirror,
        applier: Applier,
        binding: GpuBinding,
        settings: OperatorSettings,
        look_at_job: Callable[[ObjectKey], None],
    ) -> None:
        """`look_at_job` is told the jobs about which the plan has something new to say."""
        self._mirror = mirror
        self._applier = applier
        self._binding = binding
        self._settings = settings
        self._look_at_job = look_at_job
        self._memory = PlanningMemory()
        self._wanted = asyncio.Event()
        self._statuses: dict[ObjectKey, ReplaceGroupStatus] = {}
        """What is yet to be written, by group."""
        self._status_wanted = asyncio.Event()
        self._at_once = asyncio.Semaphore(_AT_ONCE)
        self.remarks = PlanMemory()
        """What the last plan said of the jobs."""
        self.finished_pass_seconds = time.monotonic()
        """When the last pass ended, or none was due, by the monotonic clock."""

    def wake(self) -> None:
        """Have a pass soon."""
        self._wanted.set()

    async def run(self) -> None:
        """Plan whenever it is wanted; never returns."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._write_statuses(), name="group statuses")
            await self._plan_when_wanted()

    async def _plan_when_wanted(self) -> None:
        while True:
            try:
                async with asyncio.timeout(_IDLE_SECONDS):
                    await self._wanted.wait()
            except TimeoutError:
                pass
            planning_seconds = await self.plan_once()
            await asyncio.sleep(max(_SHORTEST_PAUSE_SECONDS, _PAUSE_RATIO * planning_seconds))

    async def plan_once(self) -> float:
        """Do one pass; what failed is tried again by a later one. Return the planner's seconds."""
        self._wanted.clear()
        started = time.monotonic()
        state = self._mirror.state(time.time())
        try:
            result = await asyncio.to_thread(
                planning_pass, state, self._settings, self._binding, self._memory
            )
        except Exception:
            _logger.exception("planning failed: jobs keep what they have")
            self._memory = PlanningMemory()  # it may be what is wrong
            self.finished_pass_seconds = time.monotonic()
            self._retry()
            return time.monotonic() - started
        planning_seconds = time.monotonic() - started
        metrics.PLANNING_SECONDS.observe(planning_seconds)
        for job, error in result.errors.items():
            _logger.error("planning goes on without %s/%s", *job, exc_info=error)
        if result.why:
            changes = len(result.steps)
            _logger.info(
                "planned: %s; %d change%s", result.why, changes, "" if changes == 1 else "s"
            )
        for kind, steps in itertools.groupby(result.steps, type):
            if kind is Create:
                await asyncio.gather(*map(self._do, steps))
                continue
            for step in steps:
                if isinstance(step, ReplaceGroupStatus):
                    self._statuses[step.key] = step
                    self._status_wanted.set()
                else:
                    await self._do(step)
        self.remarks = result.remarks
        for job in result.changed:
            self._look_at_job(job)
        self.finished_pass_seconds = time.monotonic()
        return planning_seconds

    async def _write_statuses(self) -> None:
        """Write each group's status as the last pass wants it; never returns."""
        while True:
            await self._status_wanted.wait()
            self._status_wanted.clear()
            while self._statuses:
                key = next(iter(self._statuses))
                step, group = self._statuses.pop(key), self._mirror.groups.get(key)
                if group is not None and group.status.to_dict() != step.status:
                    await self._do(step)

    async def _do(self, step: Step) -> None:
        """Write one change; one that fails stops none of the others."""
        try:
            async with self._at_once:
                await self._applier.carry_out((step,))
        except (StepError, ApiError) as error:
            _logger.warning("the plan is not complete: %s", error)
            self._retry()

    def _retry(self) -> None:
        asyncio.get_running_loop().call_later(_RETRY_SECONDS, self.wake)
