"""What follows from a failed container or pod, as the user of a HarmonyJob decides it.

Part of `spec` of a HarmonyJob; local runs and clusters read the same rules.
"""

from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from harmony_api.resource_model import Items, ResourceModel
from harmony_api.schema_rules import Rule, rules


class ExitCodes(ResourceModel):
    """Matches a container's exit code."""

    container_name: str | None = Field(
        default=None, max_length=63, description="The container; absent: the worker or server."
    )
    operator: Literal["In", "NotIn"] = Field(description="Whether the code is one of the values.")
    values: Items[Annotated[int, Field(ge=0, le=255)]] = Field(
        min_length=1, max_length=255, description="Exit codes."
    )

    def match(self, exit_code: int, *, container: str) -> bool:
        """Whether they are about this end of this worker's or server's main container."""
        if self.container_name not in (None, container):
            return False
        return (exit_code in self.values) == (self.operator == "In")


class PodCondition(ResourceModel):
    """Matches a condition of a pod."""

    type: str = Field(min_length=1, max_length=316, description="Such as DisruptionTarget.")
    status: Literal["True", "False", "Unknown"] = Field(
        default="True", description="The status that it must have."
    )


class FailureRule(ResourceModel):
    """What to do about one kind of failure."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="has(self.onExitCodes)"
                " != (has(self.onPodConditions) && size(self.onPodConditions) > 0)",
                message="a rule matches either onExitCodes or onPodConditions: give one",
            )
        )
    )

    action: Literal["Fail", "Restart", "Ignore"] = Field(
        description="Fail the job, restart and count it, or restart and do not count it."
    )
    on_exit_codes: ExitCodes | None = Field(
        default=None, description="Matches the exit code of a container."
    )
    on_pod_conditions: Items[PodCondition] = Field(
        default=(), max_length=20, description="Matches a pod that has any of these conditions."
    )

    @model_validator(mode="after")
    def _one_thing_to_match(self) -> Self:
        if (self.on_exit_codes is None) == (not self.on_pod_conditions):
            raise ValueError("a rule matches either onExitCodes or onPodConditions: give one")
        return self


class FailurePolicy(ResourceModel):
    """How often a job may be restarted, and what is an exception; the first match decides."""

    backoff_limit: int = Field(
        default=6, ge=0, le=1_000_000, description="Restarts after which the job has failed."
    )
    rules: Items[FailureRule] = Field(
        default=(), max_length=20, description="Exceptions; the first that matches decides."
    )
