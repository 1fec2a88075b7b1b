"""A worker's pod: the user's template, a sidecar before it, and the way to devices and peers."""

from typing import Any, Final

from harmony_api import environment as names
from harmony_api import labels
from harmony_api.job import WORKER_CONTAINER
from harmony_api.pod_layout import HARMONY_GROUP, RUN_FOLDER, WORKER_SOCKET
from harmony_operator.builders.placement import on_node, tolerate_devices
from harmony_operator.builders.pod import (
    append,
    container_of,
    job_environment,
    pod_from_template,
    set_environment,
    valid_spec,
)
from harmony_operator.builders.sidecar import RUN_VOLUME, sidecar_container, sidecar_volumes
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.gpu_binding.dra import request_names
from harmony_operator.observed import ObservedJob
from harmony_operator.settings import OperatorSettings

CLAIM: Final = "harmony-gpus"
"""Name of the slot's claim within a pod."""
VISIBLE_DEVICES: Final = "NVIDIA_VISIBLE_DEVICES"


def build_worker_pod(
    job: ObservedJob,
    index: int,
    name: str,
    group: str,
    binding: SlotBinding,
    plan_json: str | None,
    settings: OperatorSettings,
) -> dict[str, Any]:
    """Return the pod of a worker; the job's spec must be valid.

    `name` is one of `names.pod_name_candidates`, `group` the name of its group; `plan_json` is
    None while the slot's devices are unknown, and annotated later.
    """
    template: dict[str, Any] = job.raw_spec["workers"]["template"]  # type: ignore[index]
    pod = pod_from_template(template, job=job, role="worker", index=index, name=name)
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["labels"][labels.GROUP] = group
    metadata["annotations"][labels.SLOT] = binding.slot
    if plan_json is not None:
        metadata["annotations"][labels.NODE_PLAN] = plan_json
    spec["affinity"] = on_node(spec.get("affinity"), binding.node)
    spec["initContainers"] = [
        sidecar_container(job, index, settings),
        *(spec.get("initContainers") or ()),
    ]
    append(spec, "volumes", *sidecar_volumes(binding.node, settings))
    security = spec["securityContext"] = dict(spec.get("securityContext") or {})
    groups = security.get("supplementalGroups") or ()
    security["supplementalGroups"] = sorted({*groups, HARMONY_GROUP})
    container = container_of(pod, WORKER_CONTAINER)
    append(container, "volumeMounts", {"name": RUN_VOLUME, "mountPath": RUN_FOLDER})
    gpus = valid_spec(job).workers.gpus_per_worker
    if gpus:
        append(spec, "tolerations", tolerate_devices(settings.gpu_resource))
    devices = _give_devices(metadata, spec, container, gpus, binding)
    set_environment(
        container,
        {
            **job_environment(job, "worker", index),
            names.WORKER_INDEX: str(index),
            names.SOCKET: WORKER_SOCKET,
            **devices,
        },
    )
    return pod


def _give_devices(
    metadata: dict[str, Any],
    spec: dict[str, Any],
    container: dict[str, Any],
    gpus: int,
    binding: SlotBinding,
) -> dict[str, str]:
    """Point the worker at the first devices of the slot; return what its environment says."""
    if binding.claim_name is not None and gpus:
        append(spec, "resourceClaims", {"name": CLAIM, "resourceClaimName": binding.claim_name})
        resources = container["resources"] = dict(container.get("resources") or {})
        used = ({"name": CLAIM, "request": request} for request in request_names(gpus))
        append(resources, "claims", *used)
        return {}
    if binding.visible_devices is not None and gpus:
        if binding.runtime_class is not None:
            spec.setdefault("runtimeClassName", binding.runtime_class)
        used_devices = ",".join(binding.visible_devices.split(",")[:gpus])
        metadata["annotations"][labels.DEVICES] = used_devices
        return {VISIBLE_DEVICES: used_devices}
    # Images ask for all devices, and a node whose default runtime is NVIDIA's obeys.
    return {VISIBLE_DEVICES: "void"}
