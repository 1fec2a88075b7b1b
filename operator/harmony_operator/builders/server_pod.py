"""A parameter server's pod: the user's template, or Harmony's own server."""

from typing import Any

from harmony_operator.observed import ObservedJob
from harmony_operator.settings import OperatorSettings


def build_server_pod(
    job: ObservedJob, index: int, name: str, settings: OperatorSettings
) -> dict[str, Any]:
    """Return the pod of a server; the job's spec must be valid."""
    raise NotImplementedError
