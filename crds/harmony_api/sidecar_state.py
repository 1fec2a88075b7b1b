"""What a sidecar answers over HTTP, so that operator, runner and reports read one form.

`GET /state` is a SidecarState, `GET /profile` its JobProfile (204 until there is one),
`GET /events?after=N` a TurnPage. All times are CLOCK_MONOTONIC nanoseconds of the node.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from harmony_api.profile import JobProfile

PhaseName = Literal["PULL", "COMP", "PUSH", "SYNC"]


class _StateModel(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="ignore")


class TurnRecord(_StateModel):
    """One phase that ran: from the grant to its release."""

    sequence: int
    phase: PhaseName
    iteration: int
    turn: int
    """0 when the phase ran without a permit."""
    epoch: int
    requested_ns: int
    start_ns: int
    end_ns: int
    bytes: int = 0
    update_ns: int = 0
    """SYNC only: the servers' update within it."""
    paused_ns: int = 0
    """Transfers only: how long it stood aside for a primary; no part of its cost."""
    secondary: bool = False
    coordinated: bool = True
    ended_by: Literal["Release", "Lease", "Disconnect"] = "Release"


class TurnPage(_StateModel):
    """Records after a sequence number; `lost` were overwritten before they were asked for."""

    next_sequence: int
    lost: int = 0
    turns: list[TurnRecord] = Field(default_factory=list)


class SidecarState(_StateModel):
    """Where one worker stands."""

    job: str
    worker: int
    connected: bool = False
    ended: bool = False
    """The program said that it is done."""
    iteration: int = 0
    total: int = 0
    loss: float | None = None
    doing: Literal["Idle", "Waiting", "PULL", "COMP", "PUSH", "SYNC"] = "Idle"
    waiting_for: PhaseName | None = None
    wait_seconds: dict[PhaseName, float] = Field(default_factory=dict)
    """Seconds spent waiting for permits so far, by phase."""
    turns: dict[PhaseName, int] = Field(default_factory=dict)
    arbiter: bool = False
    """This sidecar is its node's arbiter."""
    epoch: int = 0
    uncoordinated_turns: int = 0
    revoked_turns: int = 0
    plan_generation: int = -1
    profile: JobProfile | None = None
