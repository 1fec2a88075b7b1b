"""A HarmonyGroup as an object."""

from typing import Any

from harmony_api.harmony_group import HarmonyGroupSpec


def build_group(namespace: str, name: str, spec: HarmonyGroupSpec) -> dict[str, Any]:
    """Return the group."""
    raise NotImplementedError
