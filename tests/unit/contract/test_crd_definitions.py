"""The definitions say everything that the models say, in a form that an API server takes."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import pytest
from kubernetes.client import V1CustomResourceDefinition
from pydantic import BaseModel, Field

from harmony_crds import __main__ as command
from harmony_crds.__main__ import generated_files
from harmony_crds.definitions import harmony_groups, harmony_jobs
from harmony_crds.structural_schema import structural_schema

Schema = dict[str, Any]

CLIENT_SIDE_APPLY_LIMIT = 262_144
"""Bytes: `kubectl apply` keeps the whole object in an annotation."""


def root_schema(definition: dict[str, Any]) -> Schema:
    schema: Schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return schema


def fields(schema: Schema, path: str = "") -> Iterator[tuple[str, Schema]]:
    """Yield every field below a schema, with its path."""
    for name, child in schema.get("properties", {}).items():
        yield f"{path}.{name}", child
        yield from fields(child, f"{path}.{name}")
    if "items" in schema:
        yield f"{path}[]", schema["items"]
        yield from fields(schema["items"], f"{path}[]")


ALL_FIELDS = [
    pytest.param(schema, id=kind + path)
    for kind, definition in (("hj", harmony_jobs()), ("hg", harmony_groups()))
    for path, schema in fields(root_schema(definition))
    if path.count(".") > 1
]


@pytest.mark.parametrize("schema", ALL_FIELDS)
def test_every_field_is_described_and_bounded(schema: Schema) -> None:
    kind = schema.get("type")
    if kind in ("string", None) and "enum" not in schema and schema.get("format") != "date-time":
        assert "maxLength" in schema
    if kind == "array":
        assert "maxItems" in schema
        assert schema["x-kubernetes-list-type"] in ("atomic", "map")
    assert kind != "number"


def test_every_field_has_a_description() -> None:
    for definition in (harmony_jobs(), harmony_groups()):
        for path, schema in fields(root_schema(definition)):
            assert schema.get("description") or path.endswith("[]") or path == ".metadata", path


def test_every_rule_has_a_message() -> None:
    schemas = [root_schema(harmony_jobs()), root_schema(harmony_groups())]
    schemas += [schema for root in list(schemas) for _, schema in fields(root)]
    rules = [rule for each in schemas for rule in each.get("x-kubernetes-validations", [])]
    assert rules
    for rule in rules:
        assert rule.get("message") or rule.get("messageExpression"), rule


@pytest.mark.parametrize("definition", [harmony_jobs(), harmony_groups()])
def test_a_definition_has_only_fields_that_kubernetes_knows(definition: dict[str, Any]) -> None:
    V1CustomResourceDefinition.model_validate(definition)


@pytest.mark.parametrize("path", generated_files(), ids=lambda path: path.name)
def test_the_files_in_the_tree_are_those_of_the_models(path: Path) -> None:
    assert path.read_text() == generated_files()[path], "run 'make crds'"


def test_the_check_names_a_file_that_differs_and_writes_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(command, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["harmony_crds", "--check"])
    assert command.main() == 1
    assert "crds/harmonyjobs.yaml is out of date: run 'make crds'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("path", generated_files(), ids=lambda path: path.name)
def test_a_plain_kubectl_apply_can_take_it(path: Path) -> None:
    assert path.stat().st_size < CLIENT_SIDE_APPLY_LIMIT / 2


class Inner(BaseModel):
    """The inner object."""

    count: int = 3


class Outer(BaseModel):
    """The outer
    object.
    """

    kind: Literal["Only"] = "Only"
    name: str | None = Field(default=None, max_length=5)
    inner: Inner = Inner()
    inners: tuple[Inner, ...] = ()


def test_references_nulls_and_constants_become_plain_fields() -> None:
    inner = {
        "description": "The inner object.",
        "type": "object",
        "properties": {"count": {"type": "integer", "format": "int64", "default": 3}},
    }
    assert structural_schema(Outer) == {
        "description": "The outer object.",
        "type": "object",
        "properties": {
            "kind": {"type": "string", "enum": ["Only"], "default": "Only"},
            "name": {"type": "string", "maxLength": 5},
            "inner": {**inner, "default": {}},
            "inners": {"type": "array", "x-kubernetes-list-type": "atomic", "items": inner},
        },
    }


class TwoTypes(BaseModel):
    value: int | str


class OpenObject(BaseModel):
    value: dict[str, Any]


class Multiples(BaseModel):
    value: int = Field(multiple_of=2)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (TwoTypes, "TwoTypes.value: a field of a structural schema has one type"),
        (OpenObject, "OpenObject.value: an object that is not described loses its fields"),
        (Multiples, "Multiples.value: a structural schema has no multipleOf"),
    ],
)
def test_what_a_structural_schema_cannot_say_is_an_error(
    model: type[BaseModel], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        structural_schema(model)
