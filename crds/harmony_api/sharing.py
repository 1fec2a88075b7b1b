"""Under which conditions a job shares its slots: how slow it may get, and with how little memory.

Part of `spec` of a HarmonyJob; see `job.py` for the rules of the form.
"""

from typing import Literal, Self

from pydantic import ConfigDict, Field, model_validator

from harmony_api.quantity import ByteQuantity, parse_bytes
from harmony_api.resource_model import ResourceModel
from harmony_api.schema_rules import Rule, rules


class MemoryRange(ResourceModel):
    """How much memory a worker uses, and with how little it can still run."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="!has(self.minimum)"
                " || !isQuantity(string(self.minimum)) || !isQuantity(string(self.footprint))"
                " || !quantity(string(self.minimum))"
                ".isGreaterThan(quantity(string(self.footprint)))",
                message="minimum is above footprint: lower minimum or raise footprint",
                message_expression="'minimum (' + string(self.minimum)"
                " + ') is above footprint (' + string(self.footprint)"
                " + '): lower minimum or raise footprint'",
            )
        )
    )

    footprint: ByteQuantity = Field(description="What it uses when it is alone.")
    minimum: ByteQuantity | None = Field(
        default=None,
        description="What it can be held to; below the footprint it is spilled or swapped.",
    )

    @model_validator(mode="after")
    def _minimum_within_footprint(self) -> Self:
        if self.minimum_bytes > self.footprint_bytes:
            raise ValueError(
                f"minimum ({self.minimum}) is above footprint ({self.footprint}): "
                "lower minimum or raise footprint"
            )
        return self

    @property
    def footprint_bytes(self) -> int:
        """The footprint in bytes."""
        return parse_bytes(self.footprint)

    @property
    def minimum_bytes(self) -> int:
        """The minimum in bytes; the footprint where none is given."""
        return self.footprint_bytes if self.minimum is None else parse_bytes(self.minimum)


class NodeStore(ResourceModel):
    """The job's part of the node's store."""

    capacity: ByteQuantity = Field(description="Room for spilled blocks.")


class Sharing(ResourceModel):
    """Under which conditions the job shares its slots with others."""

    policy: Literal["Shared", "Exclusive"] = Field(
        default="Shared", description="Exclusive: no other job uses its slots."
    )
    max_slowdown_percent: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description="100 x (seconds per iteration shared / alone - 1) that sharing may cost it.",
    )
    device_memory: MemoryRange | None = Field(
        default=None, description="Device memory of one worker."
    )
    host_memory: MemoryRange | None = Field(default=None, description="Host memory of one worker.")
    store: NodeStore | None = Field(
        default=None, description="Room in the store of each of its nodes."
    )
