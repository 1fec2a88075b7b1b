"""The form that all models of custom resources share.

Strict, so that `"3"` is never taken for 3; unknown fields are errors, so that a typo is never
silently a default; frozen, since a spec belongs to the user. Python names are snake_case, the
resource's own are camelCase, and only those are read.
"""

from typing import Annotated, TypeVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

Element = TypeVar("Element")

Items = Annotated[tuple[Element, ...], Field(strict=False)]
"""A list in the resource; `strict=False` only lets a list become a tuple, elements stay strict."""


class ResourceModel(BaseModel):
    """Base of every object in a custom resource."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True, strict=True)
