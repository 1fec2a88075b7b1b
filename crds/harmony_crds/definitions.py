"""The two CustomResourceDefinitions: their schemas, and how `kubectl get` prints them."""

import inspect
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from harmony_api import harmony_group, job, labels
from harmony_api.harmony_group import HarmonyGroup, HarmonyGroupSpec, HarmonyGroupStatus
from harmony_api.job import HarmonyJob, HarmonyJobSpec
from harmony_api.job_status import HarmonyJobStatus
from harmony_crds.structural_schema import Schema, structural_schema

Definition = dict[str, Any]

_TYPE_META: Final = {
    "apiVersion": {"type": "string", "description": "The version of this form of the object."},
    "kind": {"type": "string", "description": "The kind of the object."},
    "metadata": {"type": "object"},
}


def harmony_jobs() -> Definition:
    """Return the definition of HarmonyJob."""
    return _definition(
        kind=job.KIND,
        short_name="hj",
        schema=_object_schema(HarmonyJob, HarmonyJobSpec, HarmonyJobStatus),
        columns=[
            _column("State", ".status.state", "What the job does."),
            _column("Group", ".status.group.name", "The group in which it shares slots."),
            _column("Workers", ".status.columns.workers", "Workers that run, of those planned."),
            _column("Progress", ".status.columns.progress", "Iterations done, of all."),
            _column("Restarts", ".status.restarts", "Restarts after failures.", kind="integer"),
            _column("Age", ".metadata.creationTimestamp", "Time since creation.", kind="date"),
            _wide("Slowdown", ".status.columns.slowdown", "Cost of sharing, of its speed alone."),
            _wide("Comp", ".status.columns.compute", "Computing in one iteration."),
            _wide("Net", ".status.columns.network", "Pull, push and update in one iteration."),
            _wide("Spill", ".status.columns.spill", "Memory moved out until its turn."),
        ],
        selectable=[".status.state", ".status.group.name"],
    )


def harmony_groups() -> Definition:
    """Return the definition of HarmonyGroup."""
    return _definition(
        kind=harmony_group.KIND,
        short_name="hg",
        schema=_object_schema(HarmonyGroup, HarmonyGroupSpec, HarmonyGroupStatus),
        columns=[
            _column("Members", ".status.columns.members", "The jobs that share it."),
            _column("Slots", ".status.columns.slots", "Slots, and their kind."),
            _column("Node", ".spec.slots[0].node", "The node of the first slot."),
            _column("Predicted", ".status.columns.predicted", "The planned cycle."),
            _column("Measured", ".status.columns.measured", "The measured cycle."),
            _column("Age", ".metadata.creationTimestamp", "Time since creation.", kind="date"),
            _wide("Plan", ".spec.generation", "Generation of its plan.", kind="integer"),
            _wide(
                "Comp",
                ".status.computeUtilisationPercent",
                "Percent of the cycle in which the device computes.",
                kind="integer",
            ),
            _wide(
                "Net",
                ".status.networkUtilisationPercent",
                "Percent of the cycle in which the link is used.",
                kind="integer",
            ),
        ],
        selectable=[],
    )


def _object_schema(
    model: type[BaseModel], spec: type[BaseModel], status: type[BaseModel]
) -> Schema:
    """Return the schema of a whole object; its metadata is the API server's own business."""
    own_rules = model.model_config.get("json_schema_extra")
    return {
        "type": "object",
        "description": inspect.getdoc(model),
        "required": ["spec"],
        "properties": {
            **_TYPE_META,
            "spec": structural_schema(spec),
            "status": structural_schema(status),
        },
        **(own_rules if isinstance(own_rules, dict) else {}),
    }


def _definition(
    *,
    kind: str,
    short_name: str,
    schema: Schema,
    columns: list[Mapping[str, Any]],
    selectable: list[str],
) -> Definition:
    singular = kind.lower()
    group, version = job.API_VERSION.split("/")
    served: dict[str, Any] = {
        "name": version,
        "served": True,
        "storage": True,
        "subresources": {"status": {}},
        "additionalPrinterColumns": columns,
        "schema": {"openAPIV3Schema": schema},
    }
    if selectable:
        served["selectableFields"] = [{"jsonPath": path} for path in selectable]
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": f"{singular}s.{group}",
            "labels": {labels.APP_NAME: labels.HARMONY, labels.APP_PART_OF: labels.HARMONY},
        },
        "spec": {
            "group": group,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": f"{singular}s",
                "singular": singular,
                "shortNames": [short_name],
                "categories": ["harmony"],
            },
            "scope": "Namespaced",
            "versions": [served],
        },
    }


def _column(name: str, path: str, description: str, *, kind: str = "string") -> dict[str, Any]:
    return {"name": name, "type": kind, "jsonPath": path, "description": description}


def _wide(name: str, path: str, description: str, *, kind: str = "string") -> dict[str, Any]:
    return {**_column(name, path, description, kind=kind), "priority": 1}
