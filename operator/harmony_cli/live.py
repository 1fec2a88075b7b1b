"""What a run is doing now: a table that redraws itself, or plain lines where nobody watches.

Single-threaded on purpose: the runner's loop calls `update`, nothing draws in between, and a
slow terminal cannot race with the runner.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from harmony_api.sidecar_state import SidecarState
from harmony_cli.run_record import GroupRecord, JobState

SPEED_WINDOW_SECONDS = 5.0
PLAIN_INTERVAL_SECONDS = 5.0
UNKNOWN = "-"


@dataclass(frozen=True)
class JobRow:
    """What the runner knows of a job at this moment."""

    name: str
    state: JobState
    workers: tuple[SidecarState, ...] = ()
    """Last state of each worker's sidecar, by index; those that never answered are absent."""
    total: int | None = None
    """`spec.iterations`; the workers' own total counts where it is absent."""


@dataclass(frozen=True)
class Progress:
    """A job's row as it is shown."""

    name: str
    state: JobState
    iteration: int
    total: int
    """0: unknown."""
    iterations_per_second: float | None
    waiting_share: float | None
    """Part (0 to 1) of a worker's last seconds spent waiting for permits."""
    doing: str
    loss: float | None

    @property
    def seconds_left(self) -> float | None:
        """Time to the last iteration at the present speed."""
        if not self.total or not self.iterations_per_second:
            return None
        return max(0, self.total - self.iteration) / self.iterations_per_second


class Speedometer:
    """Speeds over the last few seconds, from samples of counters."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, float]] = deque()

    def add(self, now_seconds: float, iteration: int, waited_seconds: float) -> None:
        """Note the counters; one that went back (a replaced worker) begins anew."""
        if self._samples and (
            iteration < self._samples[-1][1] or waited_seconds < self._samples[-1][2]
        ):
            self._samples.clear()
        self._samples.append((now_seconds, iteration, waited_seconds))
        while len(self._samples) > 2 and now_seconds - self._samples[1][0] >= SPEED_WINDOW_SECONDS:
            self._samples.popleft()

    def rates(self) -> tuple[float, float] | None:
        """Return iterations per second, and seconds waited per second."""
        if len(self._samples) < 2:
            return None
        (then, first, waited_then), (now, last, waited) = self._samples[0], self._samples[-1]
        if now <= then:
            return None
        return (last - first) / (now - then), (waited - waited_then) / (now - then)


class LiveView:
    """The display of one run. `update` every half second, `close` once."""

    def __init__(
        self, console: Console, title: str, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._console = console
        self._title = title
        self._clock = clock
        self._speedometers: dict[str, Speedometer] = {}
        self._told: set[str] = set()
        self._printed_at = float("-inf")
        self._last_lines: list[str] = []
        self._live: Live | None = None
        if console.is_terminal:
            self._live = Live(console=console, auto_refresh=False, transient=False)
            self._live.start()
        else:
            console.print(title, highlight=False)

    def update(
        self,
        rows: Sequence[JobRow],
        notes: Sequence[str] = (),
        groups: Sequence[GroupRecord] = (),
    ) -> None:
        """Show the present state; `notes` are all that the user should know by now."""
        now = self._clock()
        progress = [self._progress(row, now) for row in rows]
        cycles = [cycle_line(group, progress) for group in groups if len(group.members) > 1]
        if self._live:
            self._live.update(_frame(self._title, progress, [*cycles, *notes]), refresh=True)
            return
        for note in notes:
            if note not in self._told:
                self._told.add(note)
                self._console.print(note, highlight=False)
        self._last_lines = [*map(progress_line, progress), *cycles]
        if now - self._printed_at >= PLAIN_INTERVAL_SECONDS:
            self._printed_at = now
            self._print_lines()

    def close(self) -> None:
        """Leave the last state on the screen; safe to call twice."""
        if self._live:
            self._live.stop()
        else:
            self._print_lines()

    def _print_lines(self) -> None:
        for line in self._last_lines:
            self._console.print(line, highlight=False)
        self._last_lines = []

    def _progress(self, row: JobRow, now: float) -> Progress:
        iteration = min((worker.iteration for worker in row.workers), default=0)
        waited = sum(
            seconds
            for worker in row.workers
            for phase, seconds in worker.wait_seconds.items()
            if phase != "SYNC"  # waiting for peers, not for a permit
        )
        rates = None
        if row.state == "Running":
            speedometer = self._speedometers.setdefault(row.name, Speedometer())
            speedometer.add(now, iteration, waited)
            rates = speedometer.rates()
        chief = row.workers[0] if row.workers else None
        total = row.total or (chief.total if chief else 0)
        return Progress(
            name=row.name,
            state=row.state,
            iteration=total if row.state == "Succeeded" and total else iteration,
            total=total,
            iterations_per_second=rates[0] if rates else None,
            waiting_share=rates[1] / len(row.workers) if rates and row.workers else None,
            doing=_doing(chief) if chief and row.state == "Running" else "",
            loss=chief.loss if chief else None,
        )


def cycle_line(group: GroupRecord, progress: Sequence[Progress]) -> str:
    """Return who shares what, with the predicted cycle and the one measured just now."""
    speeds = {row.name: row.iterations_per_second for row in progress}
    cycles = []
    for member in group.members:
        speed = speeds.get(member.job)
        cycles.append(member.rounds / speed if speed else None)
    measured = [cycle for cycle in cycles if cycle is not None]
    predicted = group.prediction.cycle_seconds if group.prediction else None
    return (
        f"{', '.join(group.slots)}: {' and '.join(member.job for member in group.members)}, "
        f"cycle {_milliseconds(predicted)} predicted, "
        f"{_milliseconds(max(measured) if len(measured) == len(cycles) else None)} measured"
    )


def progress_line(row: Progress) -> str:
    """Return a job's progress as one line of plain text."""
    parts = [f"{row.state} {row.doing}".rstrip(), _count(row)]
    if row.iterations_per_second is not None:
        parts.append(f"{row.iterations_per_second:.1f}/s")
    if row.waiting_share is not None:
        parts.append(f"waits {row.waiting_share * 100:.0f} %")
    if row.loss is not None:
        parts.append(f"loss {row.loss:.4g}")
    if row.seconds_left is not None:
        parts.append(f"{_duration(row.seconds_left)} left")
    return f"{row.name}: {', '.join(parts)}"


def _frame(title: str, progress: Sequence[Progress], lines: Sequence[str]) -> RenderableType:
    table = Table(title=title, title_justify="left", title_style="bold", box=None)
    table.padding = (0, 1, 0, 0)
    table.add_column("job", style="bold", header_style="dim")
    table.add_column("", header_style="dim", min_width=9)
    table.add_column("iteration", header_style="dim", justify="right")
    table.add_column("", min_width=6, max_width=24)
    for name, width in (("speed", 8), ("phase", 9), ("waits", 5), ("loss", 7), ("left", 6)):
        table.add_column(name, header_style="dim", min_width=width, justify="right")
    for row in progress:
        speed, waits = row.iterations_per_second, row.waiting_share
        table.add_row(
            row.name,
            row.state,
            _count(row),
            ProgressBar(total=row.total or 1, completed=row.iteration),
            UNKNOWN if speed is None else f"{speed:.1f}/s",
            row.doing or UNKNOWN,
            UNKNOWN if waits is None else f"{waits * 100:.0f} %",
            UNKNOWN if row.loss is None else f"{row.loss:.4g}",
            UNKNOWN if row.seconds_left is None else _duration(row.seconds_left),
        )
    return Group(table, *(Text(line, style="dim") for line in lines))


def _doing(worker: SidecarState) -> str:
    if worker.doing == "Waiting" and worker.waiting_for:
        return f"wait {worker.waiting_for}"
    return worker.doing


def _count(row: Progress) -> str:
    return f"{row.iteration}/{row.total}" if row.total else str(row.iteration)


def _milliseconds(seconds: float | None) -> str:
    return UNKNOWN if seconds is None else f"{seconds * 1e3:.0f} ms"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds // 60:.0f}:{seconds % 60:02.0f}"
    return f"{seconds / 3600:.1f} h"
