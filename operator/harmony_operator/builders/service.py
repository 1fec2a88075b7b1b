"""The headless Service of a job, which gives every pod of it a name in DNS."""

from typing import Any

from harmony_api import labels
from harmony_api.pod_layout import SERVER_PORT
from harmony_operator.builders.names import service_name
from harmony_operator.builders.ownership import job_metadata
from harmony_operator.observed import ObservedJob


def build_service(job: ObservedJob) -> dict[str, Any]:
    """Return the Service.

    Peers must find each other before they are ready, since ready is who has found them.
    """
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": job_metadata(job, service_name(job.key.name), "service"),
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": {labels.JOB_NAME: job.key.name, labels.JOB_UID: job.uid},
            "ports": [{"name": "harmony", "port": SERVER_PORT, "targetPort": SERVER_PORT}],
        },
    }
