"""Labels, names and owners: the metadata that everything of a job or a group has in common."""

from collections.abc import Mapping
from typing import Any, Final

from harmony_api import harmony_group, job, labels
from harmony_api.harmony_group import GroupSlot
from harmony_operator.builders.names import slot_object_name
from harmony_operator.observed import ObjectKey, ObservedGroup, ObservedJob

_FOREIGN_ANNOTATIONS: Final = ("kopf.zalando.org/", "kubectl.kubernetes.io/")
"""Notes of a tool about the object that it met: untrue of a copy."""


def common_labels(instance: str, component: labels.Role) -> dict[str, str]:
    """Return the recommended labels, and the role by which objects are selected."""
    return {
        labels.APP_NAME: labels.HARMONY,
        labels.APP_INSTANCE: instance,
        labels.APP_COMPONENT: component,
        labels.APP_PART_OF: labels.HARMONY,
        labels.APP_MANAGED_BY: labels.OPERATOR,
        labels.ROLE: component,
    }


def job_metadata(owner: ObservedJob, name: str, role: labels.Role) -> dict[str, Any]:
    """Return the metadata of an object that goes when its job does."""
    return {
        "name": name,
        "namespace": owner.key.namespace,
        "labels": {
            **common_labels(owner.key.name, role),
            labels.JOB_NAME: owner.key.name,
            labels.JOB_UID: owner.uid,
        },
        "ownerReferences": [_owner(job.API_VERSION, job.KIND, owner.key, owner.uid)],
    }


def slot_metadata(owner: ObservedGroup, slot: GroupSlot, role: labels.Role) -> dict[str, Any]:
    """Return the metadata of what binds a group's slot: it goes when the group does."""
    kind, version = harmony_group.KIND, harmony_group.API_VERSION
    return {
        "name": slot_object_name(owner.key.name, slot.name),
        "namespace": owner.key.namespace,
        "labels": {**common_labels(owner.key.name, role), labels.GROUP: owner.key.name},
        "annotations": {labels.SLOT: slot.name},
        "ownerReferences": [_owner(version, kind, owner.key, owner.uid)],
    }


def own_annotations(annotations: Mapping[str, str] | None) -> dict[str, str]:
    """Return the annotations that still hold for a copy of their object."""
    return {
        key: value
        for key, value in (annotations or {}).items()
        if not key.startswith(_FOREIGN_ANNOTATIONS)
    }


def _owner(api_version: str, kind: str, key: ObjectKey, uid: str) -> dict[str, Any]:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "name": key.name,
        "uid": uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }
