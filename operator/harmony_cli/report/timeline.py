"""The timeline of a run as rows of coloured segments; what PNG and HTML draw; pure.

A worker has a row per resource, compute and network, with its turns and its waits for them.
Each device of the machine, and its network, has a row that shows whose turn it was: there one
sees at a glance whether it was busy and whether turns overlapped.
"""

import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final, Literal

from harmony_api.sidecar_state import TurnRecord
from harmony_cli.report.activity import network_interval, shared_window, turns_by_device
from harmony_cli.report.intervals import Interval, covered
from harmony_cli.report.run_folder import Run

Kind = Literal["PULL", "COMP", "PUSH", "SYNC", "Update", "Wait"]

PHASE_COLOURS: Final[dict[Kind, str]] = {
    "PULL": "#56B4E9",
    "COMP": "#E69F00",
    "PUSH": "#009E73",
    "Update": "#CC79A7",
    "SYNC": "#D9D9D9",
    "Wait": "#F0F0F0",
}
"""Okabe and Ito's palette, which colour-blind people can tell apart; greys for waiting."""

JOB_COLOURS: Final = ("#0072B2", "#D55E00", "#5B4A8A", "#8C8C00", "#333333", "#7FB8B0")
"""By place of the job in the run, again from the start where there are more."""

MACHINE: Final = "machine"
COMPUTE: Final = "compute"
NETWORK: Final = "network"
WINDOW_CYCLES: Final = 10
SHORTEST_WAIT_NS: Final = 200_000
"""Shorter waits are a permit's hand-over, and thinner than a line."""


@dataclass(frozen=True)
class Segment:
    """One bar: a turn, a part of a SYNC, or the wait before a turn. Times are the turn's."""

    kind: Kind
    job: str
    start_ns: int
    end_ns: int
    turn: TurnRecord

    @property
    def in_background(self) -> bool:
        """Whether another job's turn may rightly overlap it."""
        return self.kind == "Update" or self.turn.secondary


@dataclass(frozen=True)
class Row:
    """One line of the timeline."""

    owner: str
    """A worker, whose rows are coloured by phase, or MACHINE, whose rows are by job."""
    name: str
    """`compute` or `network` of a worker; a device or `network` of the machine."""
    segments: tuple[Segment, ...]

    @property
    def by_job(self) -> bool:
        """Whether the row's colour is the job."""
        return self.owner == MACHINE


@dataclass(frozen=True)
class Timeline:
    """All rows, and the window that shows what is typical."""

    rows: tuple[Row, ...]
    jobs: tuple[str, ...]
    window: Interval
    """WINDOW_CYCLES iterations of the slowest job, in the middle of the time together."""
    origin_ns: int
    """The first request of the run; pictures count from here."""
    end_ns: int
    full_duplex: bool

    def seconds(self, at_ns: int) -> float:
        """Return the seconds from the origin to a time."""
        return (at_ns - self.origin_ns) / 1e9

    def colour(self, row: Row, segment: Segment) -> str:
        """Return the colour of a segment in a row."""
        return self.job_colour(segment.job) if row.by_job else PHASE_COLOURS[segment.kind]

    def job_colour(self, job: str) -> str:
        """Return the colour of a job in the rows of devices and network."""
        return JOB_COLOURS[self.jobs.index(job) % len(JOB_COLOURS)]


def build_timeline(run: Run) -> Timeline:
    """Return the timeline of a run; its rows are empty where nothing was recorded."""
    turns = [turn for job in run.jobs for turn in job.turns]
    rows = []
    network: list[Segment] = []
    for job in run.jobs:
        for worker in job.workers:
            segments = [
                Segment(kind, job.name, start_ns, end_ns, turn)
                for turn in worker.turns
                for kind, start_ns, end_ns in _pieces(turn)
                if start_ns < end_ns
            ]
            compute = tuple(s for s in segments if s.turn.phase == "COMP")
            transfers = tuple(s for s in segments if s.turn.phase != "COMP")
            owner = job.name if len(job.workers) == 1 else f"{job.name} {worker.index}"
            rows += [Row(owner, COMPUTE, compute), Row(owner, NETWORK, transfers)]
            network += [s for s in transfers if s.kind in ("PULL", "PUSH", "Update")]
    for device, owned in turns_by_device(run).items():
        segments = [
            Segment("COMP", job, turn.start_ns, turn.end_ns, turn)
            for job, turn in owned
            if turn.phase == "COMP"
        ]
        rows.append(Row(MACHINE, device, tuple(segments)))
    network.sort(key=lambda segment: segment.start_ns)
    rows.append(Row(MACHINE, NETWORK, tuple(network)))
    return Timeline(
        rows=tuple(rows),
        jobs=tuple(job.name for job in run.jobs),
        window=_window(run),
        origin_ns=min((turn.requested_ns for turn in turns), default=0),
        end_ns=max((turn.end_ns for turn in turns), default=0),
        full_duplex=run.record.network == "FullDuplex",
    )


def visible(segments: Iterable[Segment], window: Interval) -> list[Segment]:
    """Return the segments that the window shows a part of."""
    low, high = window
    return [s for s in segments if s.end_ns > low and s.start_ns < high]


def lanes(timeline: Timeline, row: Row, segments: Sequence[Segment]) -> list[int]:
    """Return a lane for each segment, so that a machine's row shows turns that overlap.

    On a full-duplex link PULL and PUSH have a lane each. Otherwise jobs get one each where
    their turns overlap; a secondary transfer and an update may, and lie behind the primary.
    """
    if not row.by_job:
        return [0] * len(segments)
    if timeline.full_duplex and row.name == NETWORK:
        return [int(segment.kind != "PULL") for segment in segments]
    exclusive = [(s.start_ns, s.end_ns) for s in segments if not s.in_background]
    if covered(exclusive, at_least=2):
        return [timeline.jobs.index(segment.job) for segment in segments]
    return [0] * len(segments)


def _pieces(turn: TurnRecord) -> Iterator[tuple[Kind, int, int]]:
    """Yield what a turn is made of, as (kind, start, end) in ns."""
    if turn.start_ns - turn.requested_ns >= SHORTEST_WAIT_NS:
        yield "Wait", turn.requested_ns, turn.start_ns
    if turn.phase == "SYNC":
        update_ns, end_ns = network_interval(turn)
        yield "SYNC", turn.start_ns, update_ns
        yield "Update", update_ns, end_ns
    else:
        yield turn.phase, turn.start_ns, turn.end_ns


def _window(run: Run) -> Interval:
    shared = shared_window(job.turns for job in run.jobs)
    if not shared:
        return 0, 1
    low, high = max(shared, key=lambda interval: interval[1] - interval[0])
    steps = [
        statistics.median(after - before for before, after in pairwise(starts))
        for job in run.jobs
        for worker in job.workers
        if len(starts := [s for s in worker.iteration_starts() if low <= s < high]) > 1
    ]
    length = min(WINDOW_CYCLES * max(steps, default=high - low), high - low)
    start = round((low + high - length) / 2)
    return start, start + round(length)
