"""What of a manifest a local run leaves aside, because there is no cluster to ask.

A manifest is the same for both, so it holds fields that only Kubernetes can honour. They are
named rather than refused, and never silently dropped.
"""

from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER, HarmonyJob
from harmony_api.pod_template import Container, PodTemplate


def left_aside(job: HarmonyJob) -> list[str]:
    """Return the names of the given fields that a local run does not use, sorted."""
    spec = job.spec
    fields = set(_of_template(spec.workers.template, WORKER_CONTAINER))
    if spec.parameter_servers.template is not None:
        fields.update(_of_template(spec.parameter_servers.template, SERVER_CONTAINER))
    not_used = {
        "priorityClassName": spec.priority_class_name is not None,
        "workers.maxReplicas": spec.workers.max_replicas is not None,
        "sharing.hostMemory": spec.sharing.host_memory is not None,
        "sharing.store": spec.sharing.store is not None,
        "completion.cleanServers": not spec.completion.clean_servers,
        "onPodConditions": any(rule.on_pod_conditions for rule in spec.failure_policy.rules),
        "checkpoint.volumeClaimName": (
            spec.checkpoint is not None and spec.checkpoint.volume_claim_name is not None
        ),
        "ttlSecondsAfterFinished": spec.ttl_seconds_after_finished is not None,
    }
    fields.update(name for name, given in not_used.items() if given)
    return sorted(fields)


def _of_template(template: PodTemplate, name: str) -> list[str]:
    container = template.container(name)
    others = [other.name for other in template.spec.containers if other.name != name]
    return [
        *(template.spec.model_extra or ()),
        *_of_container(container),
        *(f"container {other}" for other in others),
    ]


def _of_container(container: Container) -> list[str]:
    fields = [*(container.model_extra or ())]
    if container.image is not None:
        fields.append("image")
    if container.resources.model_fields_set:
        fields.append("resources")
    if any(variable.value_from is not None for variable in container.env):
        fields.append("valueFrom")
    return fields
