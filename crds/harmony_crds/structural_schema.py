"""Turns a model into the structural schema that an API server takes.

A structural schema is narrower than JSON Schema: no references, no null, one type per field,
no closed objects (unknown fields are pruned instead). Every keyword is either carried over or
known to say nothing here; one that is neither is an error, so that no rule of a model is lost
on the way.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel

Schema = dict[str, Any]

_CARRIED_OVER = (
    "description",
    "type",
    "format",
    "enum",
    "pattern",
    "minimum",
    "maximum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "required",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)
_SAYS_NOTHING = ("title",)


def structural_schema(model: type[BaseModel]) -> Schema:
    """Return the structural schema of a model.

    Raises ValueError where the model uses something that such a schema cannot say.
    """
    schema = model.model_json_schema(by_alias=True)
    return _structural(schema, schema.get("$defs", {}), model.__name__)


def _structural(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Schema:
    rest = _resolved(node, definitions, path)
    found = {name: rest.pop(name) for name in _CARRIED_OVER if name in rest}
    if "description" in found:
        found["description"] = " ".join(found["description"].split())
    properties = rest.pop("properties", {})
    items = rest.pop("items", None)
    default = rest.pop("default", None)
    is_open = rest.pop("additionalProperties", False) is not False
    if found.get("x-kubernetes-preserve-unknown-fields"):
        found.pop("required", None)
    elif is_open:
        raise ValueError(f"{path}: an object that is not described loses its fields")
    elif properties:
        found["properties"] = {
            name: _structural(child, definitions, f"{path}.{name}")
            for name, child in properties.items()
        }
    if items is not None:
        found["items"] = _structural(items, definitions, f"{path}[]")
        found.setdefault("x-kubernetes-list-type", "atomic")
    if found.get("x-kubernetes-int-or-string"):
        del found["type"]
    if found.get("type") == "integer":
        found["format"] = "int64"
    if isinstance(default, dict):
        found["default"] = {}  # each field of the object has a default of its own
    elif default not in (None, []):
        found["default"] = default
    lost = rest.keys() - {*_SAYS_NOTHING, "$defs"}
    if lost:
        raise ValueError(f"{path}: a structural schema has no {', '.join(sorted(lost))}")
    return found


def _resolved(node: Mapping[str, Any], definitions: Mapping[str, Any], path: str) -> Schema:
    """Return the node without references, without "or null" and without constants."""
    merged = dict(node)
    while True:
        if "$ref" in merged:
            name = merged.pop("$ref").rpartition("/")[2]
            merged = {**definitions[name], **merged}
        elif "anyOf" in merged:
            choices = [each for each in merged.pop("anyOf") if each != {"type": "null"}]
            if len(choices) != 1:
                raise ValueError(f"{path}: a field of a structural schema has one type")
            merged = {**choices[0], **merged}
        elif "const" in merged:
            merged["enum"] = [merged.pop("const")]
        else:
            return merged
