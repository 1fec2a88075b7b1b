"""What a built object is held against: the official client's models, read strictly."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel


def checked(model: type[BaseModel], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object; every field is one that the API server knows, of the right type."""
    known = model.model_validate(manifest).model_dump(by_alias=True, exclude_unset=True)
    assert _fields(known) == _fields(manifest), "a field is spelled as in Python"
    return dict(manifest)


def environment(container: Mapping[str, Any]) -> dict[str, str]:
    """Return the plain variables of a container; each is there once."""
    names = [one["name"] for one in container["env"]]
    assert len(names) == len(set(names))
    return {one["name"]: one["value"] for one in container["env"] if "value" in one}


def container(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    spec = pod["spec"]
    both = [*spec["containers"], *spec.get("initContainers", ())]
    found: dict[str, Any] = next(one for one in both if one["name"] == name)
    return found


def _fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _fields(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_fields(item) for item in value]
    return None
