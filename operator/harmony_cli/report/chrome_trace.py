"""A run as Chrome trace events, which ui.perfetto.dev and chrome://tracing open.

A worker is a process with a thread per phase and one for its waits, and the loss is its
counter. The machine is a process with a thread per device and one for the network.
"""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harmony_cli.report.run_folder import Run, WorkerRun
from harmony_cli.report.timeline import MACHINE, Kind, Row, Segment, Timeline

Event = dict[str, Any]

THREADS: Final[tuple[Kind, ...]] = ("PULL", "COMP", "PUSH", "SYNC", "Update", "Wait")


def write_trace(run: Run, timeline: Timeline, path: Path) -> None:
    """Write the trace; timestamps are microseconds from the timeline's origin."""
    events: list[Event] = []
    workers = [worker for job in run.jobs for worker in job.workers]
    owners = dict.fromkeys(row.owner for row in timeline.rows if row.owner != MACHINE)
    for process, (owner, worker) in enumerate(zip(owners, workers, strict=True), 1):
        rows = [row for row in timeline.rows if row.owner == owner]
        events += _worker_events(timeline, process, rows, worker)
    machine = [row for row in timeline.rows if row.owner == MACHINE]
    events += _machine_events(timeline, len(owners) + 1, machine)
    trace = {"traceEvents": events, "displayTimeUnit": "ms"}
    path.write_text(json.dumps(trace, separators=(",", ":"), allow_nan=False))


def _worker_events(
    timeline: Timeline, process: int, rows: list[Row], worker: WorkerRun
) -> Iterator[Event]:
    yield _name("process_name", process, 0, rows[0].owner)
    for thread, kind in enumerate(THREADS, 1):
        yield _name("thread_name", process, thread, kind)
    for row in rows:
        for segment in row.segments:
            thread = THREADS.index(segment.kind) + 1
            yield _slice(timeline, process, thread, segment.kind, segment)
    computed_at = {turn.iteration: turn.end_ns for turn in worker.turns if turn.phase == "COMP"}
    for loss in worker.losses:
        if loss.iteration in computed_at and math.isfinite(loss.loss):
            yield {
                "ph": "C",
                "name": "loss",
                "pid": process,
                "ts": (computed_at[loss.iteration] - timeline.origin_ns) / 1e3,
                "args": {"loss": loss.loss},
            }


def _machine_events(timeline: Timeline, process: int, rows: list[Row]) -> Iterator[Event]:
    yield _name("process_name", process, 0, MACHINE)
    for thread, row in enumerate(rows, 1):
        yield _name("thread_name", process, thread, row.name)
        for segment in row.segments:
            yield _slice(timeline, process, thread, segment.job, segment)


def _slice(timeline: Timeline, process: int, thread: int, name: str, segment: Segment) -> Event:
    return {
        "ph": "X",
        "name": name,
        "cat": segment.kind,
        "pid": process,
        "tid": thread,
        "ts": (segment.start_ns - timeline.origin_ns) / 1e3,
        "dur": (segment.end_ns - segment.start_ns) / 1e3,
        "args": {
            "job": segment.job,
            "iteration": segment.turn.iteration,
            "bytes": segment.turn.bytes,
            "turn": segment.turn.turn,
            "secondary": segment.turn.secondary,
            "ended_by": segment.turn.ended_by,
        },
    }


def _name(what: str, process: int, thread: int, name: str) -> Event:
    return {"ph": "M", "name": what, "pid": process, "tid": thread, "args": {"name": name}}
