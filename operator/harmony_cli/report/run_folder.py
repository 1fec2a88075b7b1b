"""Reads a run folder as it was left, by a run that ended well or by one that was killed.

A process that is killed while it writes leaves a cut line, and one that never started leaves
no file: both are facts about the run and not errors, so they become notes. Only a folder that
is no run at all is an error, and it says what to pass instead.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import pydantic

from harmony_api.sidecar_state import TurnRecord
from harmony_cli import run_record
from harmony_cli.run_record import JobRecord, Mode, RunRecord

Line = TypeVar("Line", bound=pydantic.BaseModel)

MODES: Final[tuple[Mode, ...]] = ("dedicated", "naive", "shared")
"""The runs of a comparison, from the slowest to the fastest as one would expect them."""


class ReportError(Exception):
    """The folder cannot be reported on; the message says what to pass instead."""


class LossRecord(pydantic.BaseModel):
    """One line of a loss log; `hex` is the exact value, as `float.hex` writes it."""

    iteration: int
    loss: float
    hex: str


@dataclass(frozen=True)
class WorkerRun:
    """What one worker did."""

    index: int
    turns: tuple[TurnRecord, ...]
    """By start time."""
    losses: tuple[LossRecord, ...]
    """By iteration; of an iteration that was replayed, the last."""

    @property
    def iterations(self) -> int:
        """How many iterations ran; losses outlive a killed sidecar that held the turns."""
        computed = {turn.iteration for turn in self.turns if turn.phase == "COMP"}
        return len(computed.union(loss.iteration for loss in self.losses))

    def iteration_starts(self) -> list[int]:
        """Return when each iteration first computed, in ns; of a replayed one, the last time."""
        starts: dict[int, int] = {}
        previous = None
        for turn in self.turns:
            if turn.phase == "COMP":
                if turn.iteration != previous:
                    starts[turn.iteration] = turn.start_ns
                previous = turn.iteration
        return sorted(starts.values())


@dataclass(frozen=True)
class JobRun:
    """What one job did."""

    name: str
    workers: tuple[WorkerRun, ...]

    @property
    def turns(self) -> list[TurnRecord]:
        """All turns of all workers."""
        return [turn for worker in self.workers for turn in worker.turns]


@dataclass(frozen=True)
class Run:
    """A whole run folder."""

    folder: Path
    record: RunRecord
    jobs: tuple[JobRun, ...]
    notes: tuple[str, ...]
    """What is missing or damaged, in words."""


def read_run(folder: Path) -> Run:
    """Read one run. Raises ReportError when the folder holds none."""
    if not folder.is_dir():
        raise ReportError(f"{folder} is no folder: pass a run folder, such as runs/NAME")
    path = folder / run_record.FILE_NAME
    try:
        record = RunRecord.read(folder)
    except FileNotFoundError:
        raise ReportError(
            f"{folder} holds no {path.name}, so it is no run: pass the folder that `harmony run` "
            f"printed, or one that holds a run for each of {', '.join(MODES)}"
        ) from None
    except (pydantic.ValidationError, UnicodeDecodeError) as error:
        raise ReportError(f"{path} is no record of a run: {error}") from None
    notes: list[str] = []
    jobs = tuple(_read_job(folder / "jobs" / job.name, job, notes) for job in record.jobs)
    return Run(folder=folder, record=record, jobs=jobs, notes=tuple(notes))


def comparison_folders(folder: Path) -> dict[Mode, Path]:
    """Return the runs inside a comparison folder, by mode; none where it is no comparison."""
    if (folder / run_record.FILE_NAME).exists():
        return {}
    return {m: folder / m for m in MODES if (folder / m / run_record.FILE_NAME).exists()}


def _read_job(folder: Path, job: JobRecord, notes: list[str]) -> JobRun:
    workers = []
    for index in range(job.workers):
        turns = _read_lines(folder / f"turns-{index}.jsonl", TurnRecord, notes)
        losses = _read_lines(folder / f"losses-{index}.jsonl", LossRecord, notes)
        last_of_iteration = {loss.iteration: loss for loss in losses}
        workers.append(
            WorkerRun(
                index=index,
                turns=tuple(sorted(turns, key=lambda turn: turn.start_ns)),
                losses=tuple(last_of_iteration[i] for i in sorted(last_of_iteration)),
            )
        )
    return JobRun(name=job.name, workers=tuple(workers))


def _read_lines(path: Path, model: type[Line], notes: list[str]) -> list[Line]:
    """Return the readable lines; a note tells of the others, and of a file that is not there."""
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        notes.append(f"{path.parent.name} left no {path.name}")
        return []
    readable = []
    for line in lines:
        try:
            readable.append(model.model_validate_json(line))
        except pydantic.ValidationError:
            continue
    if unreadable := len(lines) - len(readable):
        notes.append(f"{path.parent.name}: {unreadable} unreadable line(s) in {path.name}")
    return readable
