"""A worker's pod: the user's template, a sidecar before it, and the way to devices and peers."""

from typing import Any

from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedGroup, ObservedJob
from harmony_operator.settings import OperatorSettings


def build_worker_pod(
    job: ObservedJob,
    index: int,
    name: str,
    group: ObservedGroup,
    binding: SlotBinding,
    plan_json: str | None,
    settings: OperatorSettings,
) -> dict[str, Any]:
    """Return the pod of a worker; the job's spec must be valid.

    `name` is one of `names.pod_name_candidates`; `plan_json` is None while the slot's devices
    are unknown, and annotated later.
    """
    raise NotImplementedError
