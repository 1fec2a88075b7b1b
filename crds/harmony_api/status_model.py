"""The form of what the operator writes and reads back.

Tolerant where `resource_model` is strict: an object may come from an older or newer operator,
so every field that is not essential has a default and unknown ones are ignored.
"""

from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, PlainSerializer
from pydantic.alias_generators import to_camel


def _whole_second(time: datetime) -> datetime:
    return time.astimezone(UTC).replace(microsecond=0)


Time = Annotated[
    AwareDatetime,
    AfterValidator(_whole_second),
    PlainSerializer(lambda time: time.strftime("%Y-%m-%dT%H:%M:%SZ"), return_type=str),
]
"""A point in time in whole seconds of UTC, written as Kubernetes does."""


class StatusModel(BaseModel):
    """Base of everything that the operator writes into the API server."""

    model_config = ConfigDict(
        alias_generator=to_camel, populate_by_name=True, extra="ignore", frozen=True
    )

    def to_dict(self) -> dict[str, Any]:
        """Return the object as the API server takes it; fields that are None are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)
