"""Jobs and groups as the operator sees them, written down shortly."""

from collections.abc import Mapping, Sequence
from typing import Any

from harmony_api.harmony_group import GroupMember, GroupSlot, HarmonyGroupSpec, HarmonyGroupStatus
from harmony_operator.observed import ObjectKey, ObservedGroup, ObservedJob
from harmony_operator.parsing import parse_job
from harmony_operator.settings import OperatorSettings

SETTINGS = OperatorSettings(
    sidecar_image="harmony/sidecar", server_image="harmony/worker", device_class="gpu.example.com"
)


def template(container: str = "worker", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": container, "image": "train"}], **spec}}


def job(
    name: str = "mlr",
    namespace: str = "team",
    *,
    workers: Mapping[str, Any] | None = None,
    **spec: Any,
) -> ObservedJob:
    """A job of two workers; `workers` and other fields of the spec as the user wrote them."""
    return parse_job(
        {
            "apiVersion": "harmony.dev/v1alpha1",
            "kind": "HarmonyJob",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
            "spec": {"workers": {"replicas": 2, "template": template(), **(workers or {})}, **spec},
        }
    )


def slot(number: int = 0, *, node: str = "node-a", gpus: int = 0) -> GroupSlot:
    return GroupSlot(name=f"{node}/{number}", node=node, gpus=gpus)


def member(of: ObservedJob, slot_indices: Sequence[int] = (0, 1), **fields: Any) -> GroupMember:
    return GroupMember(
        job=of.key.name,
        namespace=of.key.namespace,
        job_uid=of.uid,
        slot_indices=tuple(slot_indices),
        **{"order": 0, **fields},
    )


def group(
    *members: GroupMember,
    slots: Sequence[GroupSlot] | None = None,
    namespace: str = "team",
    generation: int = 3,
    **spec: Any,
) -> ObservedGroup:
    """A group on two CPU slots of two nodes."""
    return ObservedGroup(
        key=ObjectKey(namespace, "g-12345"),
        uid="uid-group",
        created_seconds=0.0,
        deleting=False,
        spec=HarmonyGroupSpec(
            generation=generation,
            slots=tuple(slots or (slot(0), slot(0, node="node-b"))),
            members=members,
            **spec,
        ),
        status=HarmonyGroupStatus(),
    )
