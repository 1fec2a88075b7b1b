"""The operator's settings come from its environment, and a wrong one is named."""

import dataclasses
import re

import pytest

from harmony_operator.settings import PREFIX, OperatorSettings, SettingsError, from_environment

REQUIRED = {"SIDECAR_IMAGE": "s", "SERVER_IMAGE": "w"}


def settings(**values: str) -> OperatorSettings:
    return from_environment({PREFIX + name: value for name, value in (REQUIRED | values).items()})


def test_only_the_images_must_be_given() -> None:
    assert settings() == OperatorSettings(sidecar_image="s", server_image="w")


def test_every_field_has_a_variable_of_its_name() -> None:
    given = {
        "SYSTEM_NAMESPACE": "system",
        "IMAGE_PULL_POLICY": "Never",
        "GPU_BINDING": "reservation",
        "DEVICE_CLASS": "gpu.example.com",
        "GPU_RESOURCE": "amd.com/gpu",
        "RUNTIME_CLASS": "nvidia",
        "RESERVATION_ENVIRONMENT": '{"NVIDIA_VISIBLE_DEVICES": "GPU-$(NODE_NAME)"}',
        "DEVICE_MEMORY_HEADROOM_PERCENT": "5",
        "DEVICE_MEMORY_HEADROOM_BYTES": "1Gi",
        "NETWORK": "FullDuplex",
        "QUEUE_ORDER": "ShortestFirst",
        "CPU_SLOTS_PER_NODE": "3",
        "NODE_STORE_ROOT": "/mnt/stores/",
        "PROBE_PORT": "9000",
        "METRICS_PORT": "9001",
    }
    found, default = settings(**given), settings()
    assert {name.lower() for name in given | REQUIRED} == {
        one.name for one in dataclasses.fields(OperatorSettings)
    }
    for name in given:
        assert getattr(found, name.lower()) != getattr(default, name.lower())
    assert found.cpu_slots_per_node == 3
    assert found.device_memory_headroom_bytes == 2**30
    assert found.node_store_root == "/mnt/stores"
    assert found.reservation_environment == {"NVIDIA_VISIBLE_DEVICES": "GPU-$(NODE_NAME)"}


def test_an_empty_variable_is_as_good_as_none() -> None:
    assert settings(GPU_BINDING="", RUNTIME_CLASS=" ", CPU_SLOTS_PER_NODE="") == settings()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SIDECAR_IMAGE", ""),
        ("GPU_BINDING", "dra"),
        ("IMAGE_PULL_POLICY", "never"),
        ("NETWORK", "half"),
        ("CPU_SLOTS_PER_NODE", "-1"),
        ("CPU_SLOTS_PER_NODE", "two"),
        ("DEVICE_MEMORY_HEADROOM_PERCENT", "101"),
        ("DEVICE_MEMORY_HEADROOM_BYTES", "256MB"),
        ("NODE_STORE_ROOT", "stores"),
        ("NODE_STORE_ROOT", "/a/../b"),
        ("RESERVATION_ENVIRONMENT", "{"),
        ("RESERVATION_ENVIRONMENT", '{"A": 1}'),
        ("RESERVATION_ENVIRONMENT", "[]"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(PREFIX + name)):
        settings(**{name: value})
