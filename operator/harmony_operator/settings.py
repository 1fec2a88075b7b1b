"""What the operator is told when it is installed, read once from its environment.

The chart writes these variables; everything else is in the cluster. A variable that is absent
has the default of its field, one that cannot be used ends the start with its name.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeVar, get_args

from harmony_api.labels import SYSTEM_NAMESPACE
from harmony_api.pod_layout import NODE_STORES_FOLDER
from harmony_api.quantity import QuantityError, parse_bytes

GpuBindingChoice = Literal["auto", "claim", "reservation", "none"]
ImagePullPolicy = Literal["Always", "IfNotPresent", "Never"]
Network = Literal["HalfDuplex", "FullDuplex"]
QueueOrder = Literal["Submission", "ShortestFirst"]
Choice = TypeVar("Choice", bound=str)

PREFIX: Final = "HARMONY_OPERATOR_"
"""Before the name of a field in capitals: HARMONY_OPERATOR_SIDECAR_IMAGE."""


class SettingsError(Exception):
    """A variable that cannot be used; the message names it."""


@dataclass(frozen=True, kw_only=True)
class OperatorSettings:
    """How this installation runs jobs."""

    sidecar_image: str
    """Of sidecars and reservation pods."""
    server_image: str
    """Of parameter servers whose job brings no template."""
    system_namespace: str = SYSTEM_NAMESPACE
    image_pull_policy: ImagePullPolicy = "IfNotPresent"
    """Of the two images above."""
    gpu_binding: GpuBindingChoice = "auto"
    device_class: str = "gpu.nvidia.com"
    """DeviceClass of the claims."""
    gpu_resource: str = "nvidia.com/gpu"
    """Extended resource of the reservation pods."""
    runtime_class: str | None = None
    """RuntimeClass that gives a pod the devices its environment names; reservation only."""
    reservation_environment: Mapping[str, str] = field(default_factory=dict)
    """More variables for reservation pods; `$(NODE_NAME)` and `$(POD_NAME)` can be used."""
    device_memory_headroom_percent: int = 3
    """Share of each device's memory that is left to its driver,"""
    device_memory_headroom_bytes: int = 256 * 2**20
    """but no less than this: what contexts and reserved pages take, which nobody declares."""
    network: Network = "HalfDuplex"
    queue_order: QueueOrder = "Submission"
    """Of jobs of one priority."""
    cpu_slots_per_node: int = 1
    node_store_root: str = NODE_STORES_FOLDER
    """Folder on every node that holds a folder of the node's name."""
    probe_port: int = 8080
    """Of `/healthz`."""
    metrics_port: int = 8081
    """Of `/metrics`."""


def from_environment(environ: Mapping[str, str]) -> OperatorSettings:
    """Return the settings. Raises SettingsError, which names the variable."""
    default = OperatorSettings(sidecar_image="", server_image="")
    return OperatorSettings(
        sidecar_image=_required(environ, "SIDECAR_IMAGE"),
        server_image=_required(environ, "SERVER_IMAGE"),
        system_namespace=_text(environ, "SYSTEM_NAMESPACE") or default.system_namespace,
        image_pull_policy=_choice(
            environ, "IMAGE_PULL_POLICY", get_args(ImagePullPolicy), default.image_pull_policy
        ),
        gpu_binding=_choice(
            environ, "GPU_BINDING", get_args(GpuBindingChoice), default.gpu_binding
        ),
        device_class=_text(environ, "DEVICE_CLASS") or default.device_class,
        gpu_resource=_text(environ, "GPU_RESOURCE") or default.gpu_resource,
        runtime_class=_text(environ, "RUNTIME_CLASS") or None,
        reservation_environment=_variables(environ, "RESERVATION_ENVIRONMENT"),
        device_memory_headroom_percent=_count(
            environ,
            "DEVICE_MEMORY_HEADROOM_PERCENT",
            default.device_memory_headroom_percent,
            most=100,
        ),
        device_memory_headroom_bytes=_bytes(
            environ, "DEVICE_MEMORY_HEADROOM_BYTES", default.device_memory_headroom_bytes
        ),
        network=_choice(environ, "NETWORK", get_args(Network), default.network),
        queue_order=_choice(environ, "QUEUE_ORDER", get_args(QueueOrder), default.queue_order),
        cpu_slots_per_node=_count(environ, "CPU_SLOTS_PER_NODE", default.cpu_slots_per_node),
        node_store_root=_folder(environ, "NODE_STORE_ROOT", default.node_store_root),
        probe_port=_count(environ, "PROBE_PORT", default.probe_port, most=65535),
        metrics_port=_count(environ, "METRICS_PORT", default.metrics_port, most=65535),
    )


def _text(environ: Mapping[str, str], name: str) -> str:
    return environ.get(PREFIX + name, "").strip()


def _required(environ: Mapping[str, str], name: str) -> str:
    text = _text(environ, name)
    if not text:
        raise SettingsError(f"{PREFIX}{name} is not set")
    return text


def _choice(
    environ: Mapping[str, str], name: str, choices: tuple[Choice, ...], default: Choice
) -> Choice:
    text = _text(environ, name)
    if not text:
        return default
    for choice in choices:
        if choice == text:
            return choice
    raise SettingsError(f"{PREFIX}{name}={text}: it must be one of {', '.join(choices)}")


def _count(environ: Mapping[str, str], name: str, default: int, most: int = 9999) -> int:
    text = _text(environ, name)
    if not text:
        return default
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= most):
        raise SettingsError(f"{PREFIX}{name}={text}: it must be a number from 0 to {most}")
    return int(text)


def _bytes(environ: Mapping[str, str], name: str, default: int) -> int:
    text = _text(environ, name)
    try:
        return parse_bytes(text) if text else default
    except QuantityError as error:
        raise SettingsError(f"{PREFIX}{name}: {error}") from None


def _folder(environ: Mapping[str, str], name: str, default: str) -> str:
    text = _text(environ, name) or default
    if not text.startswith("/") or ".." in text.split("/"):
        raise SettingsError(f"{PREFIX}{name}={text}: it must be an absolute path")
    return text.rstrip("/") or "/"


def _variables(environ: Mapping[str, str], name: str) -> dict[str, str]:
    text = _text(environ, name)
    try:
        found = json.loads(text) if text else {}
    except ValueError as error:
        raise SettingsError(f"{PREFIX}{name} is no JSON: {error}") from None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise SettingsError(f"{PREFIX}{name} must be a JSON object of strings")
    return found
