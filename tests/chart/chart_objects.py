"""The chart's place, and look-ups among the objects that it renders."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

CHART = Path(__file__).parents[2] / "charts" / "harmony"
KUBERNETES_VERSION = "v1.35.0"

Helm = Callable[..., str]
Objects = list[dict[str, Any]]
Render = Callable[..., Objects]


def one(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    """The object of this kind and name."""
    found = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    assert len(found) == 1, f"{len(found)} objects {kind} {name}"
    return found[0]


def pod_specs(objects: Objects) -> dict[str, dict[str, Any]]:
    """The pods that the chart starts, by the name of their Deployment or DaemonSet."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in objects
        if each["kind"] in ("Deployment", "DaemonSet")
    }
