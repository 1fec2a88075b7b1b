"""A HarmonyGroup as an object."""

from typing import Any

from harmony_api import labels
from harmony_api.harmony_group import API_VERSION, KIND, HarmonyGroupSpec


def build_group(namespace: str, name: str, spec: HarmonyGroupSpec) -> dict[str, Any]:
    """Return the group. No job owns it, for it outlives its members."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "labels": {
                labels.APP_NAME: labels.HARMONY,
                labels.APP_INSTANCE: name,
                labels.APP_COMPONENT: "group",
                labels.APP_PART_OF: labels.HARMONY,
                labels.APP_MANAGED_BY: labels.OPERATOR,
            },
        },
        "spec": spec.to_dict(),
    }
