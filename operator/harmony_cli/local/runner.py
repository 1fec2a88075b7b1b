"""The loop of a local run: observe, plan, reconcile, show.

One thread does everything (children die with the thread that started them), and each pass
works from what is there now. What must survive the runner is in the run folder; whatever ends
the runner, no process of the run outlives it.
"""

import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType

from harmony_api.profile import JobProfile
from harmony_cli.local.addresses import JobAddresses, assign
from harmony_cli.local.job_runtime import JobRuntime
from harmony_cli.local.link import Link, shaped_link
from harmony_cli.local.placement import Permits, Seat, decide, record_plan, seats
from harmony_cli.local.planning import expected_profiles, snapshot
from harmony_cli.local.process_specs import JobPlace
from harmony_cli.local.processes import ProcessHost
from harmony_cli.local.run_folder import RunJob
from harmony_cli.local.slots import Machine
from harmony_cli.run_record import EventRecord, JobRecord, Mode, RunRecord, SlotRecord
from harmony_planner.group_speed import Count, GroupSpeeds
from harmony_planner.snapshot import Network
from harmony_planner.triggers import LastPlan, reason_to_plan, usable

PASS_SECONDS = 0.05
SCRAPE_SECONDS = 0.5
STOP_SECONDS = 15.0


@dataclass(frozen=True)
class RunOptions:
    """What a run is asked to do."""

    run_folder: Path
    mode: Mode
    machine: Machine
    network: Network = "HalfDuplex"
    permits: Permits = "Cyclic"
    """How permits are handed out in shared mode; the other modes give none."""
    link_mbit: int | None = None
    """Shape the link between workers and servers (needs root); None: loopback."""


@dataclass
class View:
    """Whoever watches the run; called on every scrape."""

    show: Callable[["LocalRunner"], None] = field(default=lambda _: None)
    tell: Callable[[EventRecord], None] = field(default=lambda _: None)


class LocalRunner:
    """One run of some jobs, from their start to their end."""

    def __init__(
        self,
        jobs: Sequence[RunJob],
        options: RunOptions,
        view: View,
        before: RunRecord | None = None,
    ) -> None:
        """`jobs` are in queue order; `before` is the record of the run that is resumed."""
        self.options = options
        self.jobs: list[JobRuntime] = []
        self.last_plan = LastPlan()
        self.stopping = False
        self._run_jobs = list(jobs)
        self._view = view
        self._seats: dict[str, Seat] = {}
        self._speeds = GroupSpeeds()
        records = before.jobs if before else []
        self._before = {record.name: record for record in records}
        self._separated = {record.name: frozenset(record.separated_from) for record in records}
        self._give_up_at = float("inf")
        self._saved = ""
        permits: Permits = options.permits if options.mode == "shared" else "None"
        self.record = RunRecord(
            name=options.run_folder.name,
            mode=options.mode,
            permits=permits,
            network=options.network,
            link_mbit=options.link_mbit,
            started_ns=time.monotonic_ns(),
            slots=[
                SlotRecord(
                    name=slot.name,
                    device_kind=slot.device_kind,
                    compute_cpus=list(slot.compute_cpus),
                )
                for slot in options.machine.slots
            ],
            transfer_cpus=list(options.machine.transfer_cpus),
            jobs=[],
        )
        names = {run_job.job.name for run_job in jobs}
        self._ended_before = [record for record in records if record.name not in names]
        if before:
            self.record.started_ns = before.started_ns
            self.record.plans = before.plans
            self.record.events = before.events

    def run(self) -> RunRecord:
        """Run to the end of every job, or until an interrupt; return the record."""
        with ExitStack() as stack:
            host = stack.enter_context(ProcessHost())
            link = None
            if self.options.link_mbit is not None:
                link = stack.enter_context(shaped_link(self.options.link_mbit, host.run))
            hosts = {}
            if link is not None:
                hosts = {"worker_host": link.worker_address, "server_host": link.server_address}
            addresses = assign([run_job.job for run_job in self._run_jobs], **hosts)
            for run_job, its in zip(self._run_jobs, addresses, strict=True):
                self.jobs.append(self._job_runtime(run_job, its, host, link))
            self._handle_interrupts(stack)
            # The runner's own work must not slow what it starts: that says where it runs itself.
            stack.callback(os.sched_setaffinity, 0, os.sched_getaffinity(0))
            os.sched_setaffinity(0, self.options.machine.transfer_cpus)
            self._save()
            try:
                self._loop()
            finally:
                self.record.ended_ns = time.monotonic_ns()
                host.stop_all()
                self._save()
        return self.record

    def profiles(self) -> dict[str, JobProfile]:
        """Measured profiles that rest on enough iterations, by job."""
        found = {job.name: usable(job.profile()) for job in self.jobs}
        return {name: profile for name, profile in found.items() if profile is not None}

    def _loop(self) -> None:
        scrape_at = 0.0
        while True:
            now = time.monotonic()
            scrape = now >= scrape_at
            for job in self.jobs:
                self._guarded(job, scrape=scrape)
            self._plan_if_due(now)
            for job in self.jobs:
                self._reconcile(job)
            if scrape:
                scrape_at = now + SCRAPE_SECONDS
                self._view.show(self)
                self._save()
            if self._over(now):
                break
            time.sleep(PASS_SECONDS)
        for job in self.jobs:
            job.end()
        deadline = time.monotonic() + STOP_SECONDS
        while time.monotonic() < deadline and not all(job.ended for job in self.jobs):
            for job in self.jobs:
                self._guarded(job, scrape=True)
            time.sleep(PASS_SECONDS)
        self._view.show(self)

    def _over(self, now: float) -> bool:
        if self.stopping:
            return now >= self._give_up_at or all(job.terminal or job.resting for job in self.jobs)
        return all(job.terminal for job in self.jobs)

    def _guarded(self, job: JobRuntime, *, scrape: bool) -> None:
        try:
            job.observe(scrape=scrape)
        except OSError as error:
            self._tell_once(job.name, f"its turns cannot be recorded for now: {error.strerror}")

    def _reconcile(self, job: JobRuntime) -> None:
        try:
            job.reconcile(None if self.stopping else self._seats.get(job.name))
        except OSError as error:
            self._tell_once(job.name, f"it has to wait: {error}")

    def _plan_if_due(self, now: float) -> None:
        active = [job for job in self.jobs if not job.terminal]
        names = frozenset(job.name for job in active)
        if self.stopping or not names:
            return
        profiles = {name: profile for name, profile in self.profiles().items() if name in names}
        if self.options.mode != "shared" and names == self.last_plan.jobs:
            return
        running = frozenset(job.name for job in active if self._seats.get(job.name))
        counts = {
            job.name: Count(job.iterations, sum(job.restarts.values()), now)
            for job in active
            if not job.trained
        }
        why = reason_to_plan(self.last_plan, names, [running], profiles, now)
        for first, second in map(sorted, self._speeds.learn(counts)):
            self._separated[first] = self._separated.get(first, frozenset()) | {second}
            self._separated[second] = self._separated.get(second, frozenset()) | {first}
            why = f"{first} and {second} are slower together than in turn"
        if why is None:
            return
        jobs = [job.job for job in active]
        expected = expected_profiles(jobs, profiles)
        view = snapshot(
            jobs,
            self.options.machine,
            expected,
            self._separated,
            self.last_plan.decision,
            self._speeds.corrections,
            self.options.network,
        )
        decision = decide(self.options.mode, view)
        generation = len(self.record.plans) + 1
        self._seats = seats(
            decision,
            self.options.machine.slots,
            expected,
            generation=generation,
            permits=self.record.permits,
            network=self.options.network,
        )
        self.last_plan = LastPlan(names, profiles, now, decision)
        self._speeds.begin(decision, counts)
        self.record.plans.append(
            record_plan(
                decision,
                generation=generation,
                at_ns=time.monotonic_ns(),
                why=why,
                measured=frozenset(profiles),
            )
        )
        for job in active:
            job.message = self.record.plans[-1].waiting.get(job.name, "")
            if not decision.groups:
                job.fail(job.message)

    def _job_runtime(
        self, run_job: RunJob, addresses: JobAddresses, host: ProcessHost, link: Link | None
    ) -> JobRuntime:
        job = run_job.job
        folder = self.options.run_folder / "jobs" / job.name
        folder.mkdir(parents=True, exist_ok=True)
        sockets = host.temporary_folder
        store = sockets / "node"
        store.mkdir(exist_ok=True)
        place = JobPlace(
            folder=folder,
            sockets=sockets,
            program_folder=run_job.program_folder,
            store=store,
            addresses=addresses,
            transfer_cpus=self.options.machine.transfer_cpus,
        )
        return JobRuntime(
            job,
            place,
            host,
            base_environment=os.environ,
            link=link,
            tell=lambda text, warning: self._tell(job.name, text, warning=warning),
            before=self._before.get(job.name),
        )

    def _handle_interrupts(self, stack: ExitStack) -> None:
        """The first Ctrl-C stops at an iteration boundary, the second at once."""

        def interrupted(_number: int, _frame: FrameType | None) -> None:
            if self.stopping:
                raise KeyboardInterrupt
            self.stopping = True
            self._give_up_at = time.monotonic() + STOP_SECONDS

        for number in (signal.SIGINT, signal.SIGTERM):
            stack.callback(signal.signal, number, signal.signal(number, interrupted))

    def _save(self) -> None:
        self.record.jobs = self._ended_before + [
            JobRecord(
                name=job.name,
                manifest=run_job.manifest,
                program_folder=str(run_job.program_folder),
                workers=job.job.spec.workers.least,
                servers=job.job.spec.parameter_servers.replicas,
                iterations=job.job.spec.iterations,
                state=job.state,
                message=job.message,
                restarts=dict(job.restarts),
                failures=job.failures,
                separated_from=sorted(self._separated.get(job.name, ())),
            )
            for job, run_job in zip(self.jobs, self._run_jobs, strict=True)
        ]
        text = self.record.model_dump_json(by_alias=True)
        if text == self._saved:
            return
        try:
            self.record.write(self.options.run_folder)
            self._saved = text
        except OSError as error:
            self._tell_once("", f"run.json cannot be written for now: {error.strerror}")

    def _tell_once(self, job: str, text: str) -> None:
        if not any(event.job == job and event.text == text for event in self.record.events):
            self._tell(job, text, warning=True)

    def _tell(self, job: str, text: str, *, warning: bool) -> None:
        event = EventRecord(at_ns=time.monotonic_ns(), job=job, text=text, warning=warning)
        self.record.events.append(event)
        self._view.tell(event)
