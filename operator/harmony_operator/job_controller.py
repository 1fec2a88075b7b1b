"""One pass over one job: look, decide, do; nothing is remembered but a refused write.

A write that the API server refuses (a quota, a name that somebody else has, a template that
admission does not like) is part of what the next decision sees. So the pass decides a second
time, with the refusal in view, and only writes the status, which says so; then the queue tries
again, less and less often.
"""

import contextlib
import logging
import time
from collections.abc import Callable

from harmony_operator import metrics
from harmony_operator.actions import Actions
from harmony_operator.api_client import ApiError
from harmony_operator.applying import Applier, StepError
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.policies.internal_error import in_words, internal_error
from harmony_operator.reconcile import reconcile
from harmony_operator.settings import OperatorSettings
from harmony_operator.view import JobView, view_of
from harmony_operator.work_queue import Retry

_logger = logging.getLogger(__name__)


class JobController:
    """Makes the cluster equal to what each job needs."""

    def __init__(
        self,
        mirror: Mirror,
        applier: Applier,
        binding: GpuBinding,
        settings: OperatorSettings,
        remarks: Callable[[], PlanMemory],
    ) -> None:
        """`remarks` returns what the last plan said of the jobs."""
        self._mirror = mirror
        self._applier = applier
        self._binding = binding
        self._settings = settings
        self._remarks = remarks

    async def look_at(self, key: ObjectKey) -> float | None:
        """Do one pass; return the seconds after which to look again. Raises Retry."""
        try:
            return await self._pass(key)
        except ApiError as error:
            raise Retry(str(error)) from error
        except Retry:
            raise
        except Exception as error:
            await self._tell(key, error)
            raise Retry(in_words(error)) from error

    async def _tell(self, key: ObjectKey, error: Exception) -> None:
        """Log an error that nobody foresaw, once, and say it in the job's status."""
        now = time.time()
        job = self._mirror.job_state(key, now).jobs.get(key)
        actions = Actions() if job is None else internal_error(job, error, now)
        if job is None or actions.status != job.status:
            _logger.error("a pass over %s/%s failed", *key, exc_info=error)
        if job is not None:
            with contextlib.suppress(ApiError):
                await self._applier.conclude(job, actions, at_once=True)

    async def _pass(self, key: ObjectKey) -> float | None:
        view = self._view(key)
        if view is None:
            self._mirror.problems.pop(key, None)
            return None
        with metrics.PASS_SECONDS.labels(controller="job").time():
            actions = reconcile(view, self._settings)
            try:
                await self._applier.carry_out(actions.steps)
            except StepError as error:
                self._mirror.problems[key] = error.problem
                await self._say(key)
                raise Retry(str(error)) from error
            if self._mirror.problems.pop(key, None) is not None:
                return 0.0  # the decision knew of a refusal that is over
            to_be_written = await self._applier.conclude(view.job, actions)
        times = (actions.again_after_seconds, to_be_written)
        return min((one for one in times if one is not None), default=None)

    async def _say(self, key: ObjectKey) -> None:
        """Write a status that tells of a refused step."""
        view = self._view(key)
        if view is not None:
            await self._applier.conclude(view.job, reconcile(view, self._settings), at_once=True)

    def _view(self, key: ObjectKey) -> JobView | None:
        state = self._mirror.job_state(key, time.time())
        return view_of(key, state, self._binding, self._remarks())
