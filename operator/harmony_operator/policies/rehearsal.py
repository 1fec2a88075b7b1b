"""What the API server says to a job's pods before the job is found valid: nothing is made.

A template that only the API server can judge (an admission policy, a field's rules, a service
account that does not exist) must not hold slots that others could use. So its pods are tried
without a place, once for each change of the spec; what is refused is the user's to correct.
What makes a pod one job's own (names, addresses, user ids) is Harmony's and always accepted, so
the verdict on a spec is that on every equal one in the namespace.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Final

from harmony_operator.actions import Step, Try
from harmony_operator.builders.names import free_pod_name
from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.builders.volume_claim import build_volume_claim, own_volume_claims
from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedJob
from harmony_operator.policies.bad_input import is_known_valid
from harmony_operator.policies.standing import Standing
from harmony_operator.settings import OperatorSettings

_SOMEWHERE: Final = SlotBinding(slot="", node="somewhere", devices=None)


def rehearsal(standing: Standing, settings: OperatorSettings) -> Iterator[Step]:
    """Yield a try of each template of a job whose validity is not known yet."""
    view, spec = standing.view, standing.spec
    rehearsed = view.pods or is_known_valid(view)
    mistaken = standing.fault is not None and not standing.fault.by_api_server
    if rehearsed or mistaken or spec is None:
        return
    job, taken = view.job, view.foreign_pod_names
    alike = _alike(job)
    worker = free_pod_name(job.key.name, "worker", 0, taken)
    pod = build_worker_pod(job, 0, worker, "none", _SOMEWHERE, None, settings)
    yield Try(pod, f"worker {alike}")
    if spec.parameter_servers.template is not None:
        server = free_pod_name(job.key.name, "server", 0, taken)
        yield Try(build_server_pod(job, 0, server, settings), f"server {alike}")
    # One that is there already, be it an earlier job's, would only be in the way of a try.
    if own_volume_claims(job) and not (view.volume_claims or view.left_behind):
        yield Try(build_volume_claim(job, 0), f"volume claim {alike}")


def _alike(job: ObservedJob) -> str:
    """Return what is the same for jobs of one namespace whose pods differ in names only."""
    text = json.dumps([job.key.namespace, job.raw_spec], sort_keys=True)
    return hashlib.blake2s(text.encode()).hexdigest()
