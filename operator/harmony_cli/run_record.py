"""`run.json`: what a run is and what the runner decided, beside what its processes recorded.

The runner rewrites the file whole (atomically) when something in it changes; reports read it.
It is enough, with the folder's manifests and snapshots, to resume a run whose runner died.
All times are CLOCK_MONOTONIC nanoseconds.
"""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from harmony_cli.files import replace_text

Mode = Literal["shared", "naive", "dedicated"]
JobState = Literal["Waiting", "Starting", "Running", "Stopping", "Stopped", "Succeeded", "Failed"]
Role = Literal["worker", "server", "sidecar"]

FILE_NAME = "run.json"


class _Record(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class SlotRecord(_Record):
    """A slot of this machine; no cores where it is a GPU."""

    name: str
    device_kind: str = "cpu"
    compute_cpus: list[int] = Field(default_factory=list)


class JobRecord(_Record):
    """One job of the run."""

    name: str
    manifest: str
    """Path of the copied manifest, relative to the run folder."""
    program_folder: str
    """Folder of the manifest as it was given, where its programs are."""
    workers: int
    servers: int
    iterations: int | None = None
    state: JobState = "Waiting"
    message: str = ""
    restarts: dict[Role, int] = Field(default_factory=dict)
    failures: int = 0
    """Those that spent one of the job's tries."""
    separated_from: list[str] = Field(default_factory=list)
    """Jobs with which it was measured to be slower than in turn."""


class MemberRecord(_Record):
    """A job's place in a group."""

    job: str
    order: int
    rounds: int
    reason: str = ""


class PredictionRecord(_Record):
    """What the planner expected of a group."""

    cycle_seconds: float
    serial_seconds: float
    compute_utilisation: float
    network_utilisation: float
    slowdown_percent: dict[str, float] = Field(default_factory=dict)


class GroupRecord(_Record):
    """Jobs that shared the same slots from one plan to the next."""

    name: str
    slots: list[str]
    members: list[MemberRecord]
    prediction: PredictionRecord | None = None
    measured: bool = False
    """Whether every member's profile was measured; a probe's is not."""


class PlanRecord(_Record):
    """One decision of the planner."""

    generation: int
    at_ns: int
    why: str
    groups: list[GroupRecord] = Field(default_factory=list)
    waiting: dict[str, str] = Field(default_factory=dict)
    """Reason by job."""


class EventRecord(_Record):
    """Something worth telling the user."""

    at_ns: int
    job: str = ""
    text: str
    warning: bool = False


class RunRecord(_Record):
    """The whole of run.json."""

    name: str
    mode: Mode
    permits: Literal["Cyclic", "FixedAlternation", "None"]
    network: Literal["HalfDuplex", "FullDuplex"]
    link_mbit: int | None = None
    started_ns: int
    ended_ns: int | None = None
    slots: list[SlotRecord]
    transfer_cpus: list[int]
    jobs: list[JobRecord]
    plans: list[PlanRecord] = Field(default_factory=list)
    events: list[EventRecord] = Field(default_factory=list)

    def write(self, run_folder: Path) -> None:
        """Replace run.json in one step."""
        replace_text(run_folder / FILE_NAME, self.model_dump_json(by_alias=True, indent=1))

    @classmethod
    def read(cls, run_folder: Path) -> "RunRecord":
        """Raise FileNotFoundError or pydantic.ValidationError where the folder is no run."""
        return cls.model_validate_json((run_folder / FILE_NAME).read_text())
