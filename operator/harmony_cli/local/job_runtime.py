"""One job of a local run: brings its processes in line with where the plan wants it.

Level-based like the operator: every pass looks at what runs and at the seat that the job
should have, and does the next thing that is missing. Parameter servers stay while workers
move, stop or are replaced; a terminal state is final.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER, HarmonyJob
from harmony_api.profile import JobProfile
from harmony_api.sidecar_state import SidecarState
from harmony_cli.local import process_specs
from harmony_cli.local.ending import Ending
from harmony_cli.local.failure_policy import Decision, after_failure
from harmony_cli.local.link import Link
from harmony_cli.local.placement import Seat
from harmony_cli.local.process_specs import JobPlace
from harmony_cli.local.processes import CommandNotFound, Process, ProcessHost
from harmony_cli.local.sidecar_http import SidecarReader
from harmony_cli.local.worker_runtime import WorkerRuntime
from harmony_cli.run_record import JobRecord, JobState, Role

GRACE_SECONDS: Final = 10.0
GOODBYE_SECONDS: Final = 5.0
LOG_TAIL_LINES: Final = 5

Tell = Callable[[str, bool], None]
"""Tells the user something: text, and whether it is a warning."""


class JobRuntime:
    """The processes of one job."""

    def __init__(
        self,
        job: HarmonyJob,
        place: JobPlace,
        host: ProcessHost,
        *,
        base_environment: Mapping[str, str],
        link: Link | None,
        tell: Tell,
        before: JobRecord | None,
    ) -> None:
        """`before` is the record of the run that is resumed: spent tries stay spent."""
        self.job = job
        self.state: JobState = "Waiting"
        self.message = ""
        self.restarts: dict[Role, int] = {"worker": 0, "server": 0, "sidecar": 0}
        self.failures = 0
        """Those that spent one of the job's tries."""
        if before:
            self.restarts |= before.restarts
            self.failures = before.failures
        self._place = place
        self._host = host
        self._base = base_environment
        self._link = link
        self._tell = tell
        self._active_since: float | None = None
        self._ending = Ending()
        self._servers: list[Process | None] = [None] * job.spec.parameter_servers.replicas
        self._server_retry_at = [0.0] * len(self._servers)
        self.workers = [
            WorkerRuntime(
                index=index,
                turns_path=place.folder / f"turns-{index}.jsonl",
                reader=SidecarReader(place.port_file(job.name, index)),
            )
            for index in range(job.spec.workers.least)
        ]

    @property
    def name(self) -> str:
        """The job's name."""
        return self.job.name

    @property
    def terminal(self) -> bool:
        """Whether the job has succeeded or failed."""
        return self.state in ("Succeeded", "Failed")

    @property
    def resting(self) -> bool:
        """Whether no worker of the job runs."""
        return not any(worker.running for worker in self.workers)

    @property
    def ended(self) -> bool:
        """Whether no process of the job is left, and the last turns are collected."""
        processes = [*self._servers, *(w.process for w in self.workers)]
        alive = any(process is not None and process.poll() is None for process in processes)
        return not alive and all(worker.sidecar is None for worker in self.workers)

    def states(self) -> list[SidecarState | None]:
        """The last known state of every worker, by index."""
        return [worker.state for worker in self.workers]

    @property
    def trained(self) -> bool:
        """Whether every worker has said that its part is done; it may take a while to exit."""
        return all(state is not None and state.ended for state in self.states())

    @property
    def iterations(self) -> int:
        """Iterations that every worker has reported."""
        return min((state.iteration if state else 0 for state in self.states()), default=0)

    def profile(self) -> JobProfile | None:
        """The measured profile: of all workers, the slowest phase each."""
        profiles = [state.profile for state in self.states() if state and state.profile]
        if len(profiles) < len(self.workers):
            return None
        slowest = profiles[0].model_dump()
        for profile in profiles[1:]:
            figures = profile.model_dump()
            for name in slowest:
                if name == "iterations":
                    slowest[name] = min(slowest[name], figures[name])
                elif name != "device_kind":
                    slowest[name] = max(slowest[name], figures[name])
        return JobProfile(**slowest)

    def observe(self, *, scrape: bool) -> None:
        """Look at what runs; decide about what has ended.

        Raises OSError when the recorded turns cannot be written, after all has been decided.
        """
        self._ending.pass_by()
        unwritten: OSError | None = None
        for worker in self.workers:
            if worker.process is not None and (code := worker.process.poll()) is not None:
                self._worker_ended(worker, worker.process, code)
            try:
                worker.drain(self._ending)
                if scrape and worker.sidecar is not None:
                    worker.scrape()
            except OSError as error:
                unwritten = error
            self._warn_about(worker)
        for index, server in enumerate(self._servers):
            if server is not None and (code := server.poll()) is not None:
                self._server_ended(index, server, code)
        if not self.terminal:
            self._conclude()
        if not self.terminal and self._deadline_is_over():
            limit = self.job.spec.active_deadline_seconds
            self.fail(f"it ran for longer than activeDeadlineSeconds ({limit})")
        if unwritten is not None:
            raise unwritten

    def reconcile(self, seat: Seat | None) -> None:
        """Do the next thing that brings the job to its seat (None: it shall rest).

        Raises OSError when a node plan cannot be written.
        """
        if self.terminal:
            return
        if seat is None:
            self._stop_workers()
            return
        moved = [w for w in self.workers if w.running and w.slot != seat.slots[w.index]]
        if moved:
            self._stop_workers()
            return
        if self.state in ("Stopping", "Stopped", "Waiting"):
            self.state = "Starting"
            self._active_since = time.monotonic()
        try:
            self._keep_servers()
            for worker in self.workers:
                if not worker.completed:
                    self._keep_worker(worker, seat)
        except CommandNotFound as error:
            self.fail(f"cannot be started: {error}")
        if self.state == "Starting" and any(
            state is not None and state.iteration > 0 for state in self.states()
        ):
            self.state = "Running"

    def end(self) -> None:
        """Ask every process of the job to end; servers write a snapshot where they can.

        Sidecars follow their workers.
        """
        for worker in self.workers:
            if worker.process is not None:
                self._ending.ask(worker.process, GRACE_SECONDS)
            else:
                worker.begin_drain()
        for server in self._servers:
            if server is not None:
                self._ending.ask(server, GRACE_SECONDS)

    def _deadline_is_over(self) -> bool:
        limit = self.job.spec.active_deadline_seconds
        if limit is None or self._active_since is None:
            return False
        return time.monotonic() - self._active_since > limit

    def _warn_about(self, worker: WorkerRuntime) -> None:
        if worker.never_connected():
            self._tell(
                f"worker {worker.index} has not asked its sidecar for a permit: it runs "
                "uncoordinated, and its neighbours do not wait for it",
                True,
            )
        if worker.reader.lost:
            self._tell(
                f"{worker.reader.lost} turns of worker {worker.index} were not recorded", True
            )
            worker.reader.lost = 0

    def _keep_servers(self) -> None:
        namespace = self._link.server_namespace if self._link else None
        for index, server in enumerate(self._servers):
            if server is None and time.monotonic() >= self._server_retry_at[index]:
                spec = process_specs.build_server(self.job, index, self._place, self._base)
                self._servers[index] = self._host.spawn(
                    f"{self.name}-server-{index}",
                    spec.argv,
                    spec.environment,
                    self._place.folder / f"server-{index}.log",
                    cpus=self._place.transfer_cpus,
                    namespace=namespace,
                    working_directory=spec.working_directory,
                )

    def _keep_worker(self, worker: WorkerRuntime, seat: Seat) -> None:
        plan = seat.node_plans[worker.index]
        worker.write_plan(self._place.node_plan(self.name, worker.index), plan)
        worker.stop_asked = False
        lost = worker.keep_sidecar(
            self._host,
            process_specs.build_sidecar(self.job, worker.index, self._place, self._base),
            self._place.folder / f"sidecar-{worker.index}.log",
            self._place.transfer_cpus,
        )
        if lost:
            self.restarts["sidecar"] += 1
            self._tell(f"the sidecar of worker {worker.index} was lost and started again", True)
        if worker.process is not None or time.monotonic() < worker.retry_at:
            return
        slot = seat.slots[worker.index]
        spec = process_specs.build_worker(self.job, worker.index, self._place, slot, self._base)
        worker.slot = slot
        worker.started_at = time.monotonic()
        worker.stop_expected = False
        worker.process = self._host.spawn(
            f"{self.name}-worker-{worker.index}",
            spec.argv,
            spec.environment,
            self._place.folder / f"worker-{worker.index}.log",
            # It loads on all of its cores; the SDK then divides them among its threads.
            cpus=(*slot.compute_cpus, *self._place.transfer_cpus),
            namespace=self._link.worker_namespace if self._link else None,
            working_directory=spec.working_directory,
        )

    def _stop_workers(self) -> None:
        """Stop at an iteration boundary; programs without the SDK get SIGTERM."""
        if self.resting:
            self._active_since = None
            if self.state != "Waiting":
                self.state = "Stopped"
            return
        self.state = "Stopping"
        for worker in self.workers:
            if not worker.running or worker.process is None or worker.stop_asked:
                continue
            worker.stop_asked = worker.stop_expected = True
            worker.ask_to_stop(self._place.node_plan(self.name, worker.index))
            if worker.state is None or not worker.state.connected:
                self._ending.ask(worker.process, GRACE_SECONDS)

    def _worker_ended(self, worker: WorkerRuntime, process: Process, code: int) -> None:
        worker.process = None
        worker.begin_drain()
        if self.terminal:
            return
        if code == 0:
            worker.completed = True
            return
        if worker.stop_expected or self._ending.asked(process):
            worker.retry_at = 0.0  # it stopped, by itself with 75 or by the signal
            return
        decision = self._decide(code, WORKER_CONTAINER)
        self._after_failure(f"worker {worker.index}", "worker", process, decision)
        worker.retry_at = time.monotonic() + decision.delay_seconds

    def _server_ended(self, index: int, server: Process, code: int) -> None:
        self._servers[index] = None
        done = self.resting or all(worker.completed for worker in self.workers)
        if self.terminal or done or self._ending.asked(server):
            return
        if code == 0:
            # Its workers have said goodbye, so they are about to end; if not, it is lost.
            self._server_retry_at[index] = time.monotonic() + GOODBYE_SECONDS
            return
        decision = self._decide(code, SERVER_CONTAINER)
        self._after_failure(f"server {index}", "server", server, decision)
        self._server_retry_at[index] = time.monotonic() + decision.delay_seconds

    def _decide(self, code: int, container: str) -> Decision:
        return after_failure(
            code,
            container=container,
            failures=self.failures,
            policy=self.job.spec.failure_policy,
        )

    def _after_failure(self, who: str, role: Role, process: Process, decision: Decision) -> None:
        how = process.describe_exit()
        self.failures += decision.counts
        if decision.consequence == "Fail":
            limit = self.job.spec.failure_policy.backoff_limit
            self.fail(
                f"{who} ended with {how}, and no try is left (failurePolicy.backoffLimit: "
                f"{limit})\n{_tail(process.log_path)}"
            )
            return
        self.restarts[role] += 1
        self._tell(
            f"{who} ended with {how}: a replacement starts in {decision.delay_seconds:.1f} s "
            f"(log: {process.log_path.name})",
            True,
        )

    def _conclude(self) -> None:
        deciding = self.workers
        if self.job.spec.completion.success == "ChiefWorker":
            deciding = self.workers[:1]
        if all(worker.completed for worker in deciding):
            self.state = "Succeeded"
            self.end()
            if not any(state and any(state.turns.values()) for state in self.states()):
                self._tell("ended well, but ran no phase under Harmony", True)

    def fail(self, message: str) -> None:
        """The job has failed for good."""
        self.state = "Failed"
        self.message = message
        self._tell(f"failed: {message}", True)
        self.end()


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(errors="replace").splitlines()
    except OSError:
        return ""
    return "\n".join(f"  | {line}" for line in lines[-LOG_TAIL_LINES:])
