"""The headless Service of a job, which gives every pod of it a name in DNS."""

from typing import Any

from harmony_operator.observed import ObservedJob


def build_service(job: ObservedJob) -> dict[str, Any]:
    """Return the Service."""
    raise NotImplementedError
