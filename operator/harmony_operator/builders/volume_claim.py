"""Volume claims for checkpoints: one that the user brings, or one for each server.

A server's own claim is the job's, and so outlives suspensions and goes with the job.
"""

import copy
from typing import Any

from harmony_api import labels
from harmony_operator.builders.names import pod_name
from harmony_operator.builders.ownership import job_metadata, own_annotations
from harmony_operator.builders.pod import valid_spec
from harmony_operator.observed import ObservedJob


def volume_claim_of(job: ObservedJob, server: int) -> str | None:
    """Return the name of the claim that a server writes to; None where it has none."""
    checkpoint = valid_spec(job).checkpoint
    if checkpoint is None:
        return None
    if checkpoint.volume_claim_template is not None:
        return pod_name(job.key.name, "server", server)
    return checkpoint.volume_claim_name


def own_volume_claims(job: ObservedJob) -> tuple[str, ...]:
    """Return the names of the claims that servers have of their own; the spec must be valid."""
    spec = valid_spec(job)
    if spec.checkpoint is None or spec.checkpoint.volume_claim_template is None:
        return ()
    replicas = spec.parameter_servers.replicas
    return tuple(pod_name(job.key.name, "server", server) for server in range(replicas))


def build_volume_claim(job: ObservedJob, server: int) -> dict[str, Any]:
    """Return a server's own claim; the job must have a template for it."""
    checkpoint: dict[str, Any] = job.raw_spec["checkpoint"]  # type: ignore[assignment]
    template = checkpoint["volumeClaimTemplate"]
    given = template.get("metadata") or {}
    metadata = job_metadata(job, pod_name(job.key.name, "server", server), "server")
    metadata["labels"] = {
        **(given.get("labels") or {}),
        **metadata["labels"],
        labels.INDEX: str(server),
    }
    metadata["annotations"] = own_annotations(given.get("annotations"))
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": copy.deepcopy(template["spec"]),
    }
