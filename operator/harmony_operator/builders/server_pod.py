"""A parameter server's pod: the user's template, or Harmony's own server."""

from typing import Any, Final

from harmony_api import environment as names
from harmony_api.job import SERVER_CONTAINER
from harmony_api.pod_layout import SERVER_PORT
from harmony_operator.builders.pod import (
    append,
    container_of,
    job_environment,
    pod_from_template,
    set_environment,
    valid_spec,
)
from harmony_operator.builders.sidecar import HARDENED
from harmony_operator.builders.volume_claim import volume_claim_of
from harmony_operator.observed import ObservedJob
from harmony_operator.settings import OperatorSettings

CHECKPOINT_VOLUME: Final = "harmony-checkpoint"
CHECKPOINT_FOLDER: Final = "/var/lib/harmony/checkpoint"
IMAGE_USER: Final = 10001
"""User and group of Harmony's images."""


def build_server_pod(
    job: ObservedJob, index: int, name: str, settings: OperatorSettings
) -> dict[str, Any]:
    """Return the pod of a server; the job's spec must be valid."""
    given: dict[str, Any] = job.raw_spec.get("parameterServers") or {}  # type: ignore[assignment]
    template = given.get("template") or _default_template(settings)
    pod = pod_from_template(template, job=job, role="server", index=index, name=name)
    container = container_of(pod, SERVER_CONTAINER)
    environment = {**job_environment(job, "server", index), names.SERVER_INDEX: str(index)}
    checkpoint = valid_spec(job).checkpoint
    claim_name = volume_claim_of(job, index)
    if checkpoint is not None and claim_name is not None:
        # Jobs may share a claim; one that is created anew goes on where it was.
        folder = f"{CHECKPOINT_FOLDER}/{job.key.name}/server-{index}"
        environment[names.SNAPSHOT_DIRECTORY] = folder
        environment[names.SNAPSHOT_INTERVAL_SECONDS] = str(checkpoint.interval_seconds)
        claim = {"claimName": claim_name}
        append(pod["spec"], "volumes", {"name": CHECKPOINT_VOLUME, "persistentVolumeClaim": claim})
        append(
            container, "volumeMounts", {"name": CHECKPOINT_VOLUME, "mountPath": CHECKPOINT_FOLDER}
        )
    set_environment(container, environment)
    return pod


def _default_template(settings: OperatorSettings) -> dict[str, Any]:
    server = {
        "name": SERVER_CONTAINER,
        "image": settings.server_image,
        "imagePullPolicy": settings.image_pull_policy,
        "command": ["python", "-m", "harmony_worker.parameter_server"],
        "ports": [{"name": "harmony", "containerPort": SERVER_PORT}],
        # Until it listens the pod is not ready; later the workers' connections tell.
        "startupProbe": {
            "tcpSocket": {"port": SERVER_PORT},
            "periodSeconds": 1,
            "failureThreshold": 600,
        },
        "resources": {"requests": {"cpu": "100m", "memory": "256Mi"}},
        "securityContext": HARDENED,
        "volumeMounts": [{"name": "tmp", "mountPath": "/tmp"}],
    }
    return {
        "spec": {
            "automountServiceAccountToken": False,
            "containers": [server],
            # The group that may write to the checkpoint's volume.
            "securityContext": {"fsGroup": IMAGE_USER},
            "volumes": [{"name": "tmp", "emptyDir": {}}],
        }
    }
