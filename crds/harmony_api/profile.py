"""The profile: what one iteration of a job costs, measured by its sidecars.

Integers only (microseconds and bytes), because it is written to a resource's status. Waiting
for permits and for peers is never part of it.
"""

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class JobProfile(BaseModel):
    """Typical cost of one iteration on one worker, on one kind of device."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    device_kind: str = Field(default="cpu", max_length=253, description="The kind of device.")
    iterations: int = Field(
        default=0, ge=0, description="Iterations that the figures rest on; 0: a hint."
    )
    compute_microseconds: int = Field(ge=0, description="COMP: forward and backward pass.")
    pull_microseconds: int = Field(ge=0, description="PULL: parameters from the servers.")
    push_microseconds: int = Field(ge=0, description="PUSH: gradients to the servers.")
    update_microseconds: int = Field(
        default=0,
        ge=0,
        description="The servers' update, in which the job can neither compute nor transfer.",
    )
    pull_bytes: int = Field(default=0, ge=0, description="Bytes of one PULL.")
    push_bytes: int = Field(default=0, ge=0, description="Bytes of one PUSH.")

    @property
    def compute_seconds(self) -> float:
        """C of the model: seconds of COMP per iteration."""
        return self.compute_microseconds / 1e6

    @property
    def transfer_seconds(self) -> float:
        """Seconds of PULL and PUSH per iteration, without the update."""
        return (self.pull_microseconds + self.push_microseconds) / 1e6

    @property
    def update_seconds(self) -> float:
        """Seconds of the servers' update per iteration."""
        return self.update_microseconds / 1e6

    @property
    def network_seconds(self) -> float:
        """N of the model: everything of an iteration that is not COMP."""
        return self.transfer_seconds + self.update_seconds

    @property
    def iteration_seconds(self) -> float:
        """T of the model: one iteration alone."""
        return self.compute_seconds + self.network_seconds
