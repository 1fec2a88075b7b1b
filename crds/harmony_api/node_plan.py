"""The node plan: what the planner tells one node's sidecars, and the rules for reading it.

It travels as an annotation that a downward-API file shows to the sidecar (locally: a file
that is replaced atomically). It is declarative: a sidecar that restarts reads it again, and
of two plans of one group the one with the higher generation wins. Fields that a reader does
not know are ignored, so that an older sidecar survives a newer operator.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

NODE_PLAN_VERSION = 1


class _PlanModel(BaseModel):
    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )


class PlannedMember(_PlanModel):
    """One worker of the group on the node."""

    job: str
    worker: int = Field(ge=0)
    order: int = Field(ge=0)
    """Place in the cyclic order; the smallest goes first."""
    rounds: int = Field(default=1, ge=1)
    """Turns of this member in one cycle of the group."""
    compute_seconds: float = Field(default=0.0, ge=0)
    """Profiled seconds of one COMP phase; 0 when not measured yet."""
    network_seconds: float = Field(default=0.0, ge=0)
    """Profiled seconds of the longer of PULL and PUSH; 0 when not measured yet."""


class NodePlan(_PlanModel):
    """Everything a sidecar must know about the slot that its worker uses."""

    version: int = NODE_PLAN_VERSION
    group: str
    """Uid of the group."""
    generation: int = Field(ge=0)
    devices: tuple[str, ...] = Field(min_length=1)
    """Names of the slot's devices; COMP permits are keyed by them."""
    members: tuple[PlannedMember, ...] = ()
    device_memory_bytes: int | None = None
    """Device bytes that this worker may hold while others hold theirs."""
    network: Literal["HalfDuplex", "FullDuplex"] = "HalfDuplex"
    """FullDuplex: PULL and PUSH use separate directions of the node's link."""
    permits: Literal["Cyclic", "FixedAlternation", "None"] = "Cyclic"
    """How permits are handed out; None: members run uncoordinated and are only measured."""
    stop: bool = False
    """The worker shall stop at an iteration boundary."""
