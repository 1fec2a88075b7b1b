"""Names and addresses of a job's objects: functions of the job alone, so that a second try to
create one meets the first.
"""

import base64
import hashlib
from collections.abc import Collection, Iterator
from itertools import chain, count

from harmony_api.pod_layout import SERVER_PORT
from harmony_operator.observed import ObjectKey, ObservedJob, Role


def pod_name(job: str, role: Role, index: int) -> str:
    """Return the name of a pod, which is also its host name."""
    return f"{job}-{role}-{index}"


def pod_name_candidates(job: str, role: Role, index: int) -> Iterator[str]:
    """Yield the pod's name, then those that replace it while it is held: `-1`, `-2`, ..."""
    name = pod_name(job, role, index)
    return chain((name,), (f"{name}-{number}" for number in count(1)))


def free_pod_name(job: str, role: Role, index: int, taken: Collection[str]) -> str:
    """Return the first candidate that no pod in the namespace has."""
    return next(name for name in pod_name_candidates(job, role, index) if name not in taken)


def service_name(job: str) -> str:
    """Return the name of the job's headless Service, which is the pods' subdomain."""
    return job


def address(key: ObjectKey, role: Role, index: int) -> str:
    """Return `host:port` of a pod; a name, since a replaced pod has another IP."""
    host = f"{pod_name(key.name, role, index)}.{service_name(key.name)}.{key.namespace}.svc"
    return f"{host}:{SERVER_PORT}"


def server_addresses(job: ObservedJob) -> tuple[str, ...]:
    """Return the addresses of the job's servers, by index; its spec must be valid."""
    assert job.job is not None
    replicas = job.job.spec.parameter_servers.replicas
    return tuple(address(job.key, "server", index) for index in range(replicas))


def worker_addresses(job: ObservedJob) -> tuple[str, ...]:
    """Return the addresses of the job's workers, by index, for programs that listen there."""
    assert job.job is not None
    workers = job.job.spec.workers.least
    return tuple(address(job.key, "worker", index) for index in range(workers))


def scheduler_address(job: ObservedJob) -> str:
    """Return where the scheduler of programs that need one listens: beside server 0."""
    host, _, port = server_addresses(job)[0].rpartition(":")
    return f"{host}:{int(port) - 1}"


def member_name(namespace: str, job: str) -> str:
    """Return the name by which planner, node plans and sidecars know a job: cluster-wide."""
    return f"{namespace}/{job}"


def slot_object_name(group: str, slot: str) -> str:
    """Return the name of what binds the devices of a group's slot, claim or pod.

    It is made of the slot's name: an index may become another when the group loses a slot.
    """
    digest = hashlib.sha256(slot.encode()).digest()
    return f"{group}-{base64.b32encode(digest[:5]).decode().lower()}"
