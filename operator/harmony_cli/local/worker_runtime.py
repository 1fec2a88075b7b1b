"""One worker and its sidecar as processes, and what is known of them.

The sidecar comes first and outlives its worker until the last recorded turn is collected.
"""

import json
import time
from dataclasses import dataclass, field
from pathlib import Path

from harmony_api.node_plan import NodePlan
from harmony_api.sidecar_state import SidecarState
from harmony_cli.files import append_whole, replace_text
from harmony_cli.local.ending import Ending
from harmony_cli.local.process_specs import ProcessSpec
from harmony_cli.local.processes import Process, ProcessHost
from harmony_cli.local.sidecar_http import SidecarReader
from harmony_cli.local.slots import LocalSlot

DRAIN_SECONDS = 2.0
SIDECAR_RESTART_SECONDS = 0.2
SHORT_LIFE_SECONDS = 5.0
LONGEST_PAUSE_SECONDS = 10.0
NEVER_CONNECTED_SECONDS = 10.0


@dataclass
class WorkerRuntime:
    """One worker of one job."""

    index: int
    turns_path: Path
    reader: SidecarReader
    process: Process | None = None
    sidecar: Process | None = None
    slot: LocalSlot | None = None
    state: SidecarState | None = None
    completed: bool = False
    stop_asked: bool = False
    """The plan tells it to stop."""
    stop_expected: bool = False
    """It was told to stop at some time since it started."""
    retry_at: float = 0.0
    started_at: float = 0.0
    warned: bool = False
    _sidecar_started_at: float = 0.0
    _sidecar_ended_at: float | None = None
    _short_lives: int = 0
    _drain_until: float | None = None
    _written_plan: NodePlan | None = None
    _unwritten: list[str] = field(default_factory=list)

    @property
    def running(self) -> bool:
        """Whether the worker's process runs."""
        return self.process is not None and self.process.poll() is None

    def write_plan(self, path: Path, plan: NodePlan) -> None:
        """Give the sidecar its node plan, when it differs from the last one."""
        if plan != self._written_plan:
            replace_text(path, plan.model_dump_json(by_alias=True))
            self._written_plan = plan

    def ask_to_stop(self, path: Path) -> None:
        """Tell the worker, through its sidecar, to stop at an iteration boundary."""
        if self._written_plan is not None:
            plan = self._written_plan.model_copy(update={"stop": True})
            self.write_plan(path, plan)

    def keep_sidecar(
        self, host: ProcessHost, spec: ProcessSpec, log: Path, cpus: tuple[int, ...]
    ) -> bool:
        """Start the sidecar, again when it has ended; return whether it was lost.

        One that ends again soon is waited for longer each time. Raises CommandNotFound.
        """
        self._drain_until = None
        if self.sidecar is not None and self.sidecar.poll() is None:
            return False
        now = time.monotonic()
        lost = self.sidecar is not None
        if lost:
            if self._sidecar_ended_at is None:
                self._sidecar_ended_at = now
                lived_seconds = now - self._sidecar_started_at
                self._short_lives = (
                    self._short_lives + 1 if lived_seconds < SHORT_LIFE_SECONDS else 0
                )
            pause_seconds = min(
                SIDECAR_RESTART_SECONDS * 2.0**self._short_lives, LONGEST_PAUSE_SECONDS
            )
            if now - self._sidecar_ended_at < pause_seconds:
                return False
        self._sidecar_ended_at = None
        self._sidecar_started_at = now
        self.reader.restart()
        self.sidecar = host.spawn(
            f"sidecar-{self.index}", spec.argv, spec.environment, log, cpus=cpus
        )
        return lost

    def scrape(self) -> None:
        """Read the sidecar's state and append its new turns to the run folder.

        Raises OSError when they cannot be written; they are kept for the next call.
        """
        state = self.reader.state()
        if state is not None:
            self.state = state
        self._unwritten += [
            json.dumps(turn.model_dump(by_alias=True)) + "\n" for turn in self.reader.new_turns()
        ]
        if self._unwritten:
            append_whole(self.turns_path, "".join(self._unwritten))
            self._unwritten.clear()

    def begin_drain(self) -> None:
        """The worker has ended: its sidecar stays until it has seen that."""
        if self._drain_until is None:
            self._drain_until = time.monotonic() + DRAIN_SECONDS

    def drain(self, ending: Ending) -> None:
        """End the sidecar once its last turns are collected, or its time for that is over.

        Raises OSError when they cannot be written.
        """
        if self.sidecar is None or self._drain_until is None:
            return
        late = time.monotonic() >= self._drain_until
        saw_the_end = self.state is not None and not self.state.connected
        if not late and not saw_the_end:
            return
        try:
            self.reader.try_again()
            self.scrape()
        except OSError:
            if not late:
                return
            raise
        finally:
            if late or not self._unwritten:
                ending.ask(self.sidecar, 5.0)
                self.sidecar = None
                self._drain_until = None

    def never_connected(self) -> bool:
        """Whether the program runs for a while and has not spoken to its sidecar (told once)."""
        if self.warned or not self.running or self.state is None or self.state.connected:
            return False
        silent = not any(self.state.turns.values())
        if silent and time.monotonic() - self.started_at > NEVER_CONNECTED_SECONDS:
            self.warned = True
            return True
        return False
