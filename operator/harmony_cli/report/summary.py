"""`summary.json`: the figures of a run, or of a comparison of runs, under stable names.

Other programs read these files, so names say their unit and are never reused with another
meaning; a figure that could not be measured is null.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from harmony_api.profile import JobProfile
from harmony_cli.files import replace_text
from harmony_cli.run_record import JobState, Mode

FILE_NAME = "summary.json"


class _Summary(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, frozen=True)


class WaitSummary(_Summary):
    """Seconds of one worker, on average, spent waiting for permits."""

    pull_seconds: float
    comp_seconds: float
    push_seconds: float

    @property
    def total_seconds(self) -> float:
        """All waiting for permits."""
        return self.pull_seconds + self.comp_seconds + self.push_seconds


class JobSummary(_Summary):
    """One job; all sums of seconds are of one worker, on average."""

    name: str
    state: JobState
    workers: int
    iterations: int
    total_iterations: int | None
    start_seconds: float
    """From the start of the run's first turn to that of the job's first."""
    training_seconds: float
    """From the start of the job's first turn to the end of its last."""
    seconds_per_iteration: float | None
    """Median."""
    compute_seconds: float
    transfer_seconds: float
    """PULL and PUSH."""
    sync_seconds: float
    """Waiting for peers and for the servers' update, without a permit."""
    update_seconds: float
    """The servers' update, part of `sync_seconds`."""
    permit_waits: WaitSummary
    profile: JobProfile | None
    """Typical phases of this run; in a naive run they hold the neighbours' interference."""
    bytes_moved: int
    uncoordinated_turns: int
    """Turns without a permit; all of them where the run gave none."""
    secondary_turns: int
    revoked_turns: int
    restarts: int
    first_loss: float | None
    last_loss: float | None


class DeviceSummary(_Summary):
    """COMP on one device while jobs ran together (while any ran, if they never did)."""

    name: str
    window_seconds: float
    compute_utilisation: float
    """0 to 1: the share of the window in which some job computed."""
    overlaps: int
    """Pairs of COMP permits that were held at once; 0 unless something is broken."""


class NetworkSummary(_Summary):
    """NET of the node while jobs ran together (while any ran, if they never did)."""

    window_seconds: float
    utilisation: float
    """0 to 1: the share of the window in which bytes moved or servers updated."""
    excesses: int
    """Pairs of NET permits that must not be held at once; 0 unless something is broken."""


class GroupSummary(_Summary):
    """A group of at least two jobs, from one plan to the next."""

    name: str
    generation: int
    jobs: dict[str, int]
    """Rounds in one cycle, by job."""
    slots: list[str]
    window_seconds: float
    """Time in which every member was training."""
    predicted_cycle_seconds: float | None
    measured_cycle_seconds: float | None
    """Median time in which every member does its rounds."""
    serial_cycle_seconds: float | None
    """What the same rounds would take in turn, as predicted."""


class RunSummary(_Summary):
    """One run."""

    kind: Literal["run"] = "run"
    version: int = 1
    name: str
    mode: Mode
    makespan_seconds: float
    """From the start of the first turn to the end of the last."""
    jobs: list[JobSummary]
    devices: list[DeviceSummary]
    network: NetworkSummary
    groups: list[GroupSummary]
    notes: list[str]

    @property
    def work(self) -> dict[str, int]:
        """Iterations by job: runs of the same work have comparable times."""
        return {job.name: job.iterations for job in self.jobs}


class JobComparison(_Summary):
    """One job over the runs of a comparison."""

    name: str
    alone_seconds: float | None
    naive_seconds: float | None
    together_seconds: float | None
    slowdown_percent: float | None
    """Of its own speed alone, in seconds per iteration, while sharing."""
    profile: JobProfile | None
    """From the dedicated run."""
    compared_losses: int
    """Losses that every run of the comparison has."""
    losses_identical: bool | None
    """Bit by bit; null where fewer than two runs have any."""


class ComparisonSummary(_Summary):
    """The same jobs one after the other, left to fight (naive), and shared."""

    kind: Literal["comparison"] = "comparison"
    version: int = 1
    runs: list[RunSummary]
    jobs: list[JobComparison]
    dedicated_seconds: float | None
    """Sum of the jobs' training times alone."""
    naive_seconds: float | None
    together_seconds: float | None
    """Makespan of the shared run."""
    least_seconds: float | None
    """No schedule is faster: what the phases of the dedicated run allow."""
    speedup_over_dedicated: float | None
    speedup_over_naive: float | None
    possible_speedup: float | None
    """Dedicated over least seconds."""
    predicted_cycle_seconds: float | None
    measured_cycle_seconds: float | None
    losses_identical: bool | None
    verdict: list[str]
    """What came out, in sentences."""

    def run(self, mode: Mode) -> RunSummary | None:
        """Return the run of a mode, where there is one."""
        return next((run for run in self.runs if run.mode == mode), None)


def write_summary(summary: RunSummary | ComparisonSummary, folder: Path) -> Path:
    """Replace the folder's summary.json in one step and return its path."""
    path = folder / FILE_NAME
    replace_text(path, summary.model_dump_json(by_alias=True, indent=1) + "\n")
    return path
