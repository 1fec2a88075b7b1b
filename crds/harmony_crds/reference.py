"""The reference for users, written from the same schemas that the API server checks."""

from collections import defaultdict
from collections.abc import Iterable, Iterator

from harmony_api import conditions
from harmony_crds.definitions import Definition
from harmony_crds.structural_schema import Schema

_HEAD = """# Reference

Written by `make crds` from the models in `crds/harmony_api`; never edited. Types are strict, and
`kubectl apply` refuses unknown fields. `[]` stands for each element of a list.
"""


def reference(definitions: list[Definition]) -> str:
    """Return the reference as Markdown."""
    return "\n".join([_HEAD, *map(_resource, definitions), _conditions()])


def _resource(definition: Definition) -> str:
    names = definition["spec"]["names"]
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    lines = [
        f"## {names['kind']}",
        "",
        f"{schema['description']} `kubectl get {names['shortNames'][0]}`; "
        f"API version `{_api_version(definition)}`.",
    ]
    for part in ("spec", "status"):
        below = schema["properties"][part]
        lines += ["", f"### {names['kind']} {part}", "", below["description"], ""]
        lines += _table(("field", "type", "default", "meaning"), _rows(below))
    lines += [
        "",
        "What the API server says when it refuses an object, besides a field's bounds:",
        "",
    ]
    fields_by_message: dict[str, list[str]] = defaultdict(list)
    for path, message in _messages(schema, ""):
        fields_by_message[message].append(f"`{path}`")
    lines += [f"- {', '.join(fields)}: {text}" for text, fields in fields_by_message.items()]
    return "\n".join([*lines, ""])


def _api_version(definition: Definition) -> str:
    spec = definition["spec"]
    return f"{spec['group']}/{spec['versions'][0]['name']}"


def _rows(schema: Schema, path: str = "") -> Iterator[tuple[str, ...]]:
    """Yield field, type, default and meaning of everything below a schema."""
    required = schema.get("required", ())
    for name, child in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        default = "required" if name in required else _default(child)
        yield f"`{here}`", _type(child), default, child["description"]
        yield from _rows(child, here)
        yield from _rows(child.get("items", {}), f"{here}[]")


def _default(schema: Schema) -> str:
    default = schema.get("default")
    if default in (None, {}, ""):
        return ""
    return f"`{str(default).lower() if isinstance(default, bool) else default}`"


def _type(schema: Schema) -> str:
    """Return a field's type and bounds in a few words."""
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    kind: str = schema["type"]
    if kind == "array":
        return f"list of {_type(schema['items'])}, at most {schema['maxItems']}"
    if kind == "integer":
        return " ".join(["integer", _bounds(schema)]).strip()
    return "time" if schema.get("format") == "date-time" else kind


def _bounds(schema: Schema) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is not None and high is not None:
        return f"{low} to {high}"
    return "" if low is None else f"from {low}"


def _messages(schema: Schema, path: str) -> Iterator[tuple[str, str]]:
    """Yield the field and the message of every rule."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield f"{path}{rule.get('fieldPath', '')}".lstrip(".") or "metadata.name", rule["message"]
    for name, child in schema.get("properties", {}).items():
        yield from _messages(child, f"{path}.{name}")
    if "items" in schema:
        yield from _messages(schema["items"], f"{path}[]")


def _conditions() -> str:
    types = conditions.ConditionType
    lines = ["## Conditions of a HarmonyJob", ""]
    lines += _table(("condition", "meaning"), ((f"`{each}`", each.meaning) for each in types))
    for each in types:
        reasons = conditions.REASONS[each]
        rows = ((f"`{reason}`", reason.meaning) for reason in reasons)
        lines += ["", f"### Reasons of {each}", "", *_table(("reason", "meaning"), rows)]
    return "\n".join([*lines, ""])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [f"| {' | '.join(cells)} |" for cells in (head, ("---",) * len(head), *rows)]
