"""Errors of the models, in the words of someone who writes a manifest.

pydantic speaks of inputs and types; a user has fields, texts and lists, and wants to know what
to write instead. A field that does not exist is compared with those that do.
"""

import difflib
import types
from collections.abc import Iterator
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

FieldPath = tuple[str | int, ...]
"""Keys and list indices from the document's root to a value."""

_TYPE_WORDS = {
    "string_type": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "dict_type": "must be a mapping of fields",
    "model_type": "must be a mapping of fields",
    "model_attributes_type": "must be a mapping of fields",
}
_PATTERN_WORDS = {
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$": (
        "must be lower-case letters, digits and '-', begin with a letter and not end with '-'"
    ),
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": (
        "must be lower-case letters, digits and '-', and neither begin nor end with '-'"
    ),
    r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$": (
        "must be lower-case letters, digits, '-' and '.', and begin and end with a letter or digit"
    ),
}


def path_text(path: FieldPath) -> str:
    """Return a field's path as users write it."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def explain(model: type[BaseModel], error: ValidationError) -> Iterator[tuple[FieldPath, str]]:
    """Yield each error of a model's validation as the field's path and what to change."""
    details = error.errors(include_url=False)
    parents = {detail["loc"][:depth] for detail in details for depth in range(len(detail["loc"]))}
    for detail in details:
        path = detail["loc"]
        if detail["type"] == "too_short" and path in parents:
            continue  # items that are wrong themselves were not counted
        fields = _field_names(model, path[:-1])
        if fields and path[-1] not in fields:
            yield path, "unknown field" + _did_you_mean(str(path[-1]), fields)
        else:
            yield path, _message(detail)


def _message(detail: ErrorDetails) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "missing":
        return "is required"
    if kind == "value_error":
        return str(context["error"])
    if kind in _TYPE_WORDS:
        return f"{_TYPE_WORDS[kind]}{_type_advice(kind, value)}"
    if kind == "string_pattern_mismatch" and context["pattern"] in _PATTERN_WORDS:
        return f"{_PATTERN_WORDS[context['pattern']]}: it is {value!r}"
    if kind in ("too_short", "too_long"):
        few, limit = ("least", "min") if kind == "too_short" else ("most", "max")
        return f"must have at {few} {context[f'{limit}_length']}: it has {context['actual_length']}"
    message = detail["msg"].replace("Input should be", "must be").replace("Input should", "must")
    if kind == "literal_error" and isinstance(value, str):
        return f"{message}: it is {value!r}"
    return f"{message}: it is {value}" if isinstance(value, int) else message


def _type_advice(kind: str, value: object) -> str:
    """Say what stands there, and how it would be right where that is plain."""
    if value is None:
        return ": it is empty"
    if isinstance(value, dict | list | tuple):
        return f": it is a {'mapping' if isinstance(value, dict) else 'list'}"
    word = str(value).lower() if isinstance(value, bool) else value
    if kind == "string_type":
        return f": quote it, as in '{word}'"
    if isinstance(value, str) and (
        (kind == "int_type" and value.strip().isdecimal())
        or (kind == "bool_type" and value in ("true", "false"))
    ):
        return f": write {value.strip()} without quotes"
    return f": it is {word!r}"


def _did_you_mean(name: str, fields: list[str]) -> str:
    folded = {known.lower(): known for known in fields}
    close = difflib.get_close_matches(name.replace("_", "").lower(), folded, n=1, cutoff=0.7)
    return f": did you mean '{folded[close[0]]}'?" if close else ""


def _field_names(model: type[BaseModel], path: FieldPath) -> list[str]:
    """Return the names that an object at `path` can have; none where it is free."""
    at: Any = model
    for part in path:
        if isinstance(part, int):
            at = next(iter(get_args(at)), None) if get_origin(at) in (tuple, list) else None
        elif isinstance(at, type) and issubclass(at, BaseModel):
            named = {_alias(*field): field[1].annotation for field in at.model_fields.items()}
            at = named.get(part)
        else:
            at = None
        at = _bare(at)
    if not (isinstance(at, type) and issubclass(at, BaseModel)):
        return []
    extra = get_type_hints(at).get("__pydantic_extra__")
    passed_on = get_args(get_args(extra)[0]) if get_origin(extra) is dict else ()
    return [_alias(*field) for field in at.model_fields.items()] + [*passed_on]


def _alias(name: str, field: FieldInfo) -> str:
    return field.serialization_alias or name


def _bare(annotation: Any) -> Any:
    """Strip Annotated and an optional None from a type."""
    if get_origin(annotation) is Annotated:
        return _bare(get_args(annotation)[0])
    if get_origin(annotation) in (Union, types.UnionType):
        rest = [one for one in get_args(annotation) if one is not type(None)]
        return _bare(rest[0]) if len(rest) == 1 else None
    return annotation
