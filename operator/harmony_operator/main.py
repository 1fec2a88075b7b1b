"""The operator as a process: kopf watches, and one task group does everything else.

Watching begins at once, deciding only when this process holds the Lease and has seen all that
exists; so an operator that waits in reserve takes over within moments. Whatever fails for good
ends the process with an error, and the kubelet starts the next one: everything it needs is in
the cluster.
"""

import asyncio
import contextlib
import gc
import logging
import os
import secrets
import socket
import time
from collections.abc import Coroutine, Mapping
from typing import Any

import kopf
import prometheus_client

from harmony_operator import binding_choice, metrics, pod_http, resync, watching
from harmony_operator.api_client import ApiClient
from harmony_operator.applying import Applier
from harmony_operator.dispatch import Dispatcher
from harmony_operator.event_posting import EventPoster
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.group_controller import GroupController
from harmony_operator.job_controller import JobController
from harmony_operator.leadership import Leadership, LeadershipLost
from harmony_operator.login import login
from harmony_operator.planner_task import LONGEST_SILENCE_SECONDS, PlannerTask
from harmony_operator.scraping import Scraper
from harmony_operator.settings import OperatorSettings

_JOBS_AT_ONCE = 32
_GROUPS_AT_ONCE = 8

_logger = logging.getLogger(__name__)


class Operator:
    """One process of the operator."""

    def __init__(self, settings: OperatorSettings, identity: str) -> None:
        """`identity` names this process in the Lease; a restart of it may keep the name."""
        self._settings = settings
        self._identity = identity
        self._kopf_settings = kopf.OperatorSettings()
        watching.configure(self._kopf_settings)
        self._stop = asyncio.Event()
        self._planner: PlannerTask | None = None
        self._dispatcher = Dispatcher(self._wake_planner)

    async def run(self) -> None:
        """Work until SIGTERM or SIGINT. Raises what made the work end otherwise."""
        registry = kopf.OperatorRegistry()
        watching.watch(registry, self._dispatcher.mirror)
        work: asyncio.Task[None] | None = None

        async def log_in(**_: Any) -> kopf.ConnectionInfo:
            return login(self._kopf_settings)

        async def start(**_: Any) -> None:
            nonlocal work
            work = asyncio.create_task(self._work(), name="work")
            work.add_done_callback(lambda _: self._stop.set())

        async def end(**_: Any) -> None:
            if work is not None:
                work.cancel()
                await asyncio.wait([work])

        async def probe(**_: Any) -> str:
            return self._health()

        kopf.on.login(id="login", registry=registry)(log_in)
        kopf.on.startup(id="start", registry=registry)(start)
        kopf.on.cleanup(id="end", registry=registry)(end)
        kopf.on.probe(id="planner", registry=registry)(probe)
        await kopf.operator(
            registry=registry,
            settings=self._kopf_settings,
            clusterwide=True,
            standalone=True,
            liveness_endpoint=f"http://0.0.0.0:{self._settings.probe_port}/healthz",
            stop_flag=self._stop,
        )
        if work is not None and work.done() and not work.cancelled():
            work.result()

    async def _work(self) -> None:
        """Do everything but watching."""
        async with contextlib.AsyncExitStack() as resources:
            client = ApiClient(lambda: login(self._kopf_settings))
            resources.push_async_callback(client.close)
            http = await resources.enter_async_context(pod_http.session())
            leadership = Leadership(client, self._settings.system_namespace, self._identity)
            await resync.first_sync(client, self._dispatcher.mirror)
            await leadership.acquire()
            resources.push_async_callback(leadership.release)
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(_or_end_at_once(leadership.keep()), name="leadership")
                await resync.first_sync(client, self._dispatcher.mirror)
                binding = await binding_choice.choose_now(client, self._settings)
                _logger.info("devices are bound by: %s", binding.name)
                still = binding_choice.end_when_another_binds(client, self._settings, binding)
                tasks.create_task(still, name="binding")
                await self._start(tasks, client, http, binding)

    async def _start(
        self,
        tasks: asyncio.TaskGroup,
        client: ApiClient,
        http: Any,
        binding: GpuBinding,
    ) -> None:
        mirror, jobs, groups = (
            self._dispatcher.mirror,
            self._dispatcher.jobs,
            self._dispatcher.groups,
        )
        applier = Applier(client, mirror, EventPoster(client, self._identity))
        planner = self._planner = PlannerTask(mirror, applier, binding, self._settings, jobs.add)
        job_controller = JobController(
            mirror, applier, binding, self._settings, lambda: planner.remarks
        )
        group_controller = GroupController(mirror, applier, binding, http, jobs.add)
        scraper = Scraper(mirror, http, jobs.add, planner.wake)
        await planner.plan_once()
        tasks.create_task(planner.run(), name="planner")
        tasks.create_task(jobs.work(job_controller.look_at, _JOBS_AT_ONCE), name="jobs")
        tasks.create_task(groups.work(group_controller.look_at, _GROUPS_AT_ONCE), name="groups")
        tasks.create_task(scraper.run(), name="scraper")
        tasks.create_task(resync.keep_in_sync(client, mirror), name="resync")
        tasks.create_task(self._count(), name="metrics")

    def _wake_planner(self) -> None:
        if self._planner is not None:
            self._planner.wake()

    def _health(self) -> str:
        """Say that all is well; raises kopf.PermanentError where the planner hangs."""
        if self._planner is None:
            return "waiting"
        if time.monotonic() - self._planner.finished_pass_seconds > LONGEST_SILENCE_SECONDS:
            raise kopf.PermanentError("the planner hangs")
        return "leading"

    async def _count(self) -> None:
        """Keep the gauges of what is seen up to date."""
        mirror = self._dispatcher.mirror
        while True:
            states: dict[str, int] = {}
            for job in mirror.jobs.values():
                state = job.status.state or "Pending"
                states[state] = states.get(state, 0) + 1
            metrics.JOBS.clear()
            for name, count in states.items():
                metrics.JOBS.labels(state=name).set(count)
            metrics.GROUPS.set(len(mirror.groups))
            metrics.QUEUE_LENGTH.labels(controller="job").set(len(self._dispatcher.jobs))
            metrics.QUEUE_LENGTH.labels(controller="group").set(len(self._dispatcher.groups))
            await asyncio.sleep(5)


async def _or_end_at_once(keep: Coroutine[Any, Any, None]) -> None:
    """End the process when the Lease is lost: another one may work from that moment."""
    try:
        await keep
    except LeadershipLost as lost:
        _logger.critical("%s", lost)
        logging.shutdown()
        os._exit(1)


def identity(environ: Mapping[str, str]) -> str:
    """Return the pod's name, so that a restarted container goes on at once, or a random name."""
    return environ.get("POD_NAME") or f"{socket.gethostname()}_{secrets.token_hex(4)}"


async def run(settings: OperatorSettings, environ: Mapping[str, str]) -> None:
    """Run the operator until it is told to end."""
    # The mirror is large and has no cycles: to look through it often would cost a tenth of all.
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    prometheus_client.start_http_server(settings.metrics_port)
    await Operator(settings, identity(environ)).run()
