import pytest

from harmony_api.command_line import command_line, container_environment, expand
from harmony_api.pod_template import Container


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("$(A)", "one"),
        ("x$(A)y$(B)", "xoneytwo"),
        ("$(MISSING)", "$(MISSING)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$one"),
        ("$A", "$A"),
        ("$", "$"),
        ("$(A", "$(A"),
        ("$()", "$()"),
        ("100$$", "100$"),
    ],
)
def test_references_are_expanded_as_kubelet_does(text: str, expanded: str) -> None:
    assert expand(text, {"A": "one", "B": "two"}) == expanded


def test_a_variable_may_refer_to_harmonys_and_to_those_before_it() -> None:
    container = Container.model_validate(
        {
            "name": "worker",
            "env": [
                {"name": "EARLY", "value": "$(LATE)"},
                {"name": "DATA", "value": "$(ROOT)/data"},
                {"name": "FILE", "value": "$(DATA)/file"},
                {"name": "LATE", "value": "x"},
                {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "ROOT", "value": "overridden"},
            ],
        }
    )
    assert container_environment(container, {"ROOT": "/r", "HOME": "/h"}) == {
        "HOME": "/h",
        "EARLY": "$(LATE)",
        "DATA": "/r/data",
        "FILE": "/r/data/file",
        "LATE": "x",
        "ROOT": "overridden",
    }


def test_command_and_arguments_are_one_line() -> None:
    container = Container.model_validate(
        {"name": "worker", "command": ["python", "$(DIR)/a.py"], "args": ["--n", "$(N)"]}
    )
    assert command_line(container, {"DIR": "/d", "N": "3"}) == ["python", "/d/a.py", "--n", "3"]


def test_without_a_command_the_line_is_empty() -> None:
    assert command_line(Container.model_validate({"name": "worker", "image": "i"}), {}) == []
