"""Events about jobs, as `kubectl describe` shows them.

An event's name follows from the job and the text, so the same news a second time (a pod that
fails ten times over a day) becomes a count on one object instead of ten of them. Events are a
courtesy: one that cannot be posted is logged and given up.
"""

import hashlib
import logging
import time
from typing import Final

from harmony_api.job import API_VERSION, KIND
from harmony_operator import metrics
from harmony_operator.actions import Event
from harmony_operator.api_client import ApiClient, ApiError, Raw
from harmony_operator.observed import ObjectKey, ObservedJob

_COMPONENT: Final = "harmony-operator"
_LONGEST_MESSAGE: Final = 1024
"""What the API server takes."""

_logger = logging.getLogger(__name__)


class EventPoster:
    """Posts events; `instance` names this process."""

    def __init__(self, client: ApiClient, instance: str) -> None:
        self._client = client
        self._instance = instance

    async def post(self, job: ObservedJob, event: Event) -> None:
        """Post one event about a job."""
        manifest = self._manifest(job, event)
        key = ObjectKey(job.key.namespace, manifest["metadata"]["name"])
        try:
            try:
                await self._client.create(manifest)
            except ApiError as error:
                if error.reason != "AlreadyExists":
                    raise
                count = (await self._client.get("Event", key)).get("count", 1)
                again = {"count": count + 1, "lastTimestamp": manifest["lastTimestamp"]}
                await self._client.merge("Event", key, again)
        except ApiError as error:
            _logger.warning("event %s about %s is lost: %s", event.reason, job.key, error)
        else:
            metrics.EVENTS.labels(type=event.type, reason=event.reason).inc()

    def _manifest(self, job: ObservedJob, event: Event) -> Raw:
        text = "\0".join((job.uid, event.type, event.reason, event.message))
        digest = hashlib.blake2s(text.encode(), digest_size=8).hexdigest()
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        message = event.message
        if len(message) > _LONGEST_MESSAGE:
            message = message[: _LONGEST_MESSAGE - 3] + "..."
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"namespace": job.key.namespace, "name": f"{job.key.name}.{digest}"},
            "involvedObject": {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "namespace": job.key.namespace,
                "name": job.key.name,
                "uid": job.uid,
            },
            "type": event.type,
            "reason": event.reason,
            "message": message,
            "source": {"component": _COMPONENT},
            "reportingComponent": _COMPONENT,
            "reportingInstance": self._instance,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
