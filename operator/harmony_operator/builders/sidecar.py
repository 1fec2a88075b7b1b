"""The sidecar of a worker: a native sidecar, and the volumes by which it is reached.

It alone mounts the node's store, as a user that no other job has, in the group that may take
part in electing the node's arbiter. Nothing else of it is privileged.
"""

import hashlib
from typing import Any, Final

from harmony_api import environment as names
from harmony_api import labels
from harmony_api.pod_layout import (
    NODE_PLAN_FILE,
    NODE_STORE_MOUNT,
    POD_INFO_FOLDER,
    RUN_FOLDER,
    SIDECAR_HTTP_PORT,
    WORKER_SOCKET,
)
from harmony_operator.builders.names import member_name
from harmony_operator.observed import ObservedJob
from harmony_operator.settings import OperatorSettings

SIDECAR_CONTAINER: Final = "harmony-sidecar"
RUN_VOLUME: Final = "harmony-run"
"""Holds the worker's socket."""
POD_VOLUME: Final = "harmony-pod"
"""Downward API: the node plan."""
STORE_VOLUME: Final = "harmony-store"
"""The node's store."""

_FIRST_USER_ID: Final = 200_000
_USER_IDS: Final = 2_000_000

HARDENED: Final[dict[str, Any]] = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
"""What the restricted Pod Security level asks of a container, and a read-only root."""


def sidecar_user_id(job_uid: str) -> int:
    """Return the user as which all sidecars of a job run: 200000 to 2199999."""
    digest = hashlib.sha256(job_uid.encode()).digest()
    return _FIRST_USER_ID + int.from_bytes(digest[:8], "big") % _USER_IDS


def sidecar_container(job: ObservedJob, worker: int, settings: OperatorSettings) -> dict[str, Any]:
    """Return the sidecar, an init container that goes on running."""
    user = sidecar_user_id(job.uid)
    variables: dict[str, str] = {
        names.JOB: member_name(*job.key),
        names.ROLE: "sidecar",
        names.WORKER_INDEX: str(worker),
        names.SOCKET: WORKER_SOCKET,
        names.NODE_STORE: NODE_STORE_MOUNT,
        names.NODE_PLAN: NODE_PLAN_FILE,
        names.HTTP_PORT: str(SIDECAR_HTTP_PORT),
    }
    return {
        "name": SIDECAR_CONTAINER,
        "image": settings.sidecar_image,
        "imagePullPolicy": settings.image_pull_policy,
        "restartPolicy": "Always",
        "env": [
            *({"name": name, "value": value} for name, value in variables.items()),
            {"name": names.HTTP_HOST, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ],
        "ports": [{"name": "harmony-http", "containerPort": SIDECAR_HTTP_PORT}],
        # Its socket is there before the worker looks for it.
        "startupProbe": {
            "httpGet": {"path": "/healthz", "port": SIDECAR_HTTP_PORT},
            "periodSeconds": 1,
            "failureThreshold": 60,
        },
        # No limit of CPU: throttling would delay every permit of the node.
        "resources": {
            "requests": {"cpu": "50m", "memory": "64Mi"},
            "limits": {"memory": "256Mi"},
        },
        "securityContext": {**HARDENED, "runAsUser": user, "runAsGroup": user},
        "volumeMounts": [
            {"name": RUN_VOLUME, "mountPath": RUN_FOLDER},
            {"name": POD_VOLUME, "mountPath": POD_INFO_FOLDER, "readOnly": True},
            {"name": STORE_VOLUME, "mountPath": NODE_STORE_MOUNT},
        ],
    }


def sidecar_volumes(node: str, settings: OperatorSettings) -> list[dict[str, Any]]:
    """Return the volumes of a pod on this node whose store has been prepared."""
    plan = {
        "path": NODE_PLAN_FILE.removeprefix(f"{POD_INFO_FOLDER}/"),
        "fieldRef": {"fieldPath": f"metadata.annotations['{labels.NODE_PLAN}']"},
    }
    store = {"path": f"{settings.node_store_root.rstrip('/')}/{node}", "type": "Directory"}
    return [
        {"name": RUN_VOLUME, "emptyDir": {}},
        {"name": POD_VOLUME, "downwardAPI": {"items": [plan]}},
        {"name": STORE_VOLUME, "hostPath": store},
    ]
