"""What worker and server pods have in common: a user's template made a pod of one job.

The user's words stay wherever Harmony needs none of its own: their environment may refer to
Harmony's variables, which come first, but not change them.
"""

import copy
from collections.abc import Mapping
from typing import Any, Literal

from harmony_api import environment as names
from harmony_api import labels
from harmony_api.job import HarmonyJobSpec
from harmony_api.peer_environment import peer_environment
from harmony_api.pod_layout import EXAMPLES_FOLDER
from harmony_operator.builders.names import (
    pod_name,
    scheduler_address,
    server_addresses,
    service_name,
    worker_addresses,
)
from harmony_operator.builders.ownership import job_metadata, own_annotations
from harmony_operator.observed import ObservedJob, Role


def valid_spec(job: ObservedJob) -> HarmonyJobSpec:
    """Return the spec. Raises ValueError where the job has none that can be carried out."""
    if job.job is None:
        raise ValueError(f"{job.key.namespace}/{job.key.name} is not valid: {job.errors}")
    return job.job.spec


def pod_from_template(
    template: Mapping[str, Any], *, job: ObservedJob, role: Role, index: int, name: str
) -> dict[str, Any]:
    """Return a pod of the job, which is the template's but for what makes it the job's.

    Its host name is that of its index, whatever the pod's own name is.
    """
    given = template.get("metadata") or {}
    metadata = job_metadata(job, name, role)
    metadata["labels"] = {
        **(given.get("labels") or {}),
        **metadata["labels"],
        labels.INDEX: str(index),
    }
    metadata["annotations"] = own_annotations(given.get("annotations"))
    spec = copy.deepcopy(dict(template["spec"]))
    spec |= {
        "restartPolicy": "Never",
        "hostname": pod_name(job.key.name, role, index),
        "subdomain": service_name(job.key.name),
    }
    spec.setdefault("enableServiceLinks", False)
    priority_class = valid_spec(job).priority_class_name
    if priority_class is not None:
        spec.setdefault("priorityClassName", priority_class)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def container_of(pod: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return the container of this name, to be completed. Raises StopIteration without it."""
    container: dict[str, Any] = next(
        one for one in pod["spec"]["containers"] if one["name"] == name
    )
    return container


def append(parent: dict[str, Any], field: str, *items: Mapping[str, Any]) -> None:
    """Add items to the list in a field that may be absent or null."""
    parent[field] = [*(parent.get(field) or ()), *items]


def set_environment(container: dict[str, Any], values: Mapping[str, str]) -> None:
    """Set variables, before the container's own so that those may refer to them."""
    own = [one for one in container.get("env") or () if one["name"] not in values]
    container["env"] = [{"name": name, "value": value} for name, value in values.items()]
    if all(one["name"] != names.EXAMPLES for one in own):
        # The image says so too, but kubelet expands `$(...)` by what stands in the pod alone.
        container["env"].append({"name": names.EXAMPLES, "value": EXAMPLES_FOLDER})
    container["env"] += own


def job_environment(
    job: ObservedJob, role: Literal["worker", "server"], index: int
) -> dict[str, str]:
    """Return what a worker and a server must know about their job and their peers."""
    spec = valid_spec(job)
    servers = server_addresses(job)
    environment = {
        names.JOB: job.key.name,
        names.ROLE: role,
        names.WORKERS: str(spec.workers.least),
        names.SERVERS: ",".join(servers),
        **peer_environment(
            role=role,
            index=index,
            workers=worker_addresses(job),
            servers=servers,
            scheduler=scheduler_address(job),
        ),
    }
    if spec.iterations is not None:
        environment[names.ITERATIONS] = str(spec.iterations)
    return environment
