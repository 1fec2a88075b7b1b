"""YAML text as plain data that remembers its lines.

An error about a manifest must name the line to look at, and a key given twice must be an
error instead of the last one winning; PyYAML's loaders offer neither, so its node tree is
read here. Values that JSON does not have (dates, sets) do not arise: a manifest is an object
for an API server.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import yaml

from harmony_api.field_errors import FieldPath


@dataclass(frozen=True)
class Fault:
    """A place of the text that is no well-formed document."""

    line: int
    path: FieldPath
    message: str


@dataclass(frozen=True)
class Document:
    """One document of a YAML stream."""

    data: object
    lines: dict[FieldPath, int]
    """Line of each key or list item, from 1."""
    faults: list[Fault] = field(default_factory=list)

    def line(self, path: FieldPath) -> int:
        """Return the line of a field, or of the nearest enclosing one that is there."""
        while path not in self.lines:
            path = path[:-1]
        return self.lines[path]


_NULL_TAG = "tag:yaml.org,2002:null"
_SCALAR_TAGS = {f"tag:yaml.org,2002:{kind}" for kind in ("bool", "int", "float", "null")}


class _Loader(yaml.SafeLoader):
    """Resolves texts, numbers, booleans and null; a date stays a text."""

    yaml_implicit_resolvers = {  # noqa: RUF012  # the form that PyYAML's class attribute has
        first: [(tag, pattern) for tag, pattern in resolvers if tag in _SCALAR_TAGS]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_documents(text: str) -> Iterator[Document | Fault]:
    """Yield the documents of a stream that are not empty; a syntax error ends it with a Fault."""
    try:
        loader = _Loader(text)
        while loader.check_node():
            node = loader.get_node()
            if node is not None and node.tag != _NULL_TAG:
                yield _Reader(loader).document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        because = ", ".join(part for part in (error.context, error.problem) if part)
        yield Fault(mark.line + 1 if mark else 1, (), f"no valid YAML: {because}")
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        yield Fault(line, (), f"no valid YAML: {error.reason}")
    except RecursionError:
        yield Fault(1, (), "no valid YAML: nested too deeply")


class _Reader:
    """Turns the nodes of one document into data, lines and faults."""

    def __init__(self, loader: _Loader) -> None:
        self._loader = loader
        self._lines: dict[FieldPath, int] = {}
        self._faults: list[Fault] = []
        self._open: set[int] = set()

    def document(self, root: yaml.Node) -> Document:
        self._lines[()] = _line(root)
        return Document(self._value(root, ()), self._lines, self._faults)

    def _value(self, node: yaml.Node, path: FieldPath) -> object:
        if id(node) in self._open:
            return self._fault(node, path, "an alias that contains itself")
        self._open.add(id(node))
        try:
            if isinstance(node, yaml.MappingNode):
                return self._mapping(node, path)
            if isinstance(node, yaml.SequenceNode):
                return self._sequence(node, path)
            return self._scalar(node, path)
        finally:
            self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: FieldPath) -> dict[str, object]:
        values: dict[str, object] = {}
        for key_node, value_node in node.value:
            key = self._scalar(key_node, path)
            line = _line(key_node)
            if not isinstance(key, str):
                self._fault(key_node, path, "a field's name must be a text: quote it")
                continue
            here = (*path, key)
            if key in values:
                first = self._lines[here]
                self._faults.append(Fault(line, here, f"given twice (first on line {first})"))
                continue
            self._lines[here] = line
            values[key] = self._value(value_node, here)
        return values

    def _sequence(self, node: yaml.SequenceNode, path: FieldPath) -> list[object]:
        values: list[object] = []
        for index, item in enumerate(node.value):
            self._lines[(*path, index)] = _line(item)
            values.append(self._value(item, (*path, index)))
        return values

    def _scalar(self, node: yaml.Node, path: FieldPath) -> object:
        if not isinstance(node, yaml.ScalarNode):
            return self._fault(node, path, "a field's name must be a text")
        try:
            value: object = self._loader.construct_object(node)
        except (yaml.constructor.ConstructorError, ValueError) as error:
            reason = getattr(error, "problem", None) or str(error)
            return self._fault(node, path, f"no value for a manifest: {reason}")
        if value is None or isinstance(value, str | int | float):
            return value
        return self._fault(node, path, f"no value for a manifest: {node.tag}")

    def _fault(self, node: yaml.Node, path: FieldPath, message: str) -> object:
        """Note a fault; its place holds nothing."""
        self._faults.append(Fault(_line(node), path, message))
        return None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
