"""The part of a PodTemplateSpec that Harmony reads, and the names of all the rest.

A template is Kubernetes' own object, so every field of a real pod is accepted; but a field
name that no pod has is a typo and an error. What Harmony reads is typed strictly; the other
fields are kept as they are, for the API server to judge.
"""

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from harmony_api.quantity import Quantity
from harmony_api.resource_model import Items, ResourceModel

_CONTAINER_NAME = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"

ContainerField = Literal[
    "envFrom",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "securityContext",
    "startupProbe",
    "stdin",
    "stdinOnce",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "tty",
    "volumeDevices",
    "volumeMounts",
]
"""Fields of a container that Harmony passes on unread."""

PodField = Literal[
    "activeDeadlineSeconds",
    "affinity",
    "automountServiceAccountToken",
    "dnsConfig",
    "dnsPolicy",
    "enableServiceLinks",
    "ephemeralContainers",
    "hostAliases",
    "hostIPC",
    "hostNetwork",
    "hostPID",
    "hostUsers",
    "hostname",
    "hostnameOverride",
    "imagePullSecrets",
    "initContainers",
    "nodeName",
    "nodeSelector",
    "os",
    "overhead",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "readinessGates",
    "resourceClaims",
    "resources",
    "restartPolicy",
    "runtimeClassName",
    "schedulerName",
    "schedulingGates",
    "securityContext",
    "serviceAccount",
    "serviceAccountName",
    "setHostnameAsFQDN",
    "shareProcessNamespace",
    "subdomain",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
    "workloadRef",
]
"""Fields of a pod's spec that Harmony passes on unread."""

MetadataField = Literal[
    "annotations",
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generateName",
    "generation",
    "labels",
    "managedFields",
    "name",
    "namespace",
    "ownerReferences",
    "resourceVersion",
    "selfLink",
    "uid",
]
"""Fields of an object's metadata that Harmony passes on unread."""


class EnvironmentVariable(ResourceModel):
    """One entry of a container's `env`: a value, or a reference that only a cluster resolves."""

    name: str = Field(min_length=1, max_length=256, pattern=r"^[^=]+$")
    value: str = Field(default="", max_length=131072)
    value_from: dict[str, Any] | None = None


class ResourceRequirements(ResourceModel):
    """What a container asks of its node; a local run ignores it."""

    limits: dict[str, Quantity] = Field(default_factory=dict, max_length=64)
    requests: dict[str, Quantity] = Field(default_factory=dict, max_length=64)
    claims: Items[Any] = Field(default=(), max_length=64)


class Container(ResourceModel):
    """A container: what runs in it is read, all else passed on."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[ContainerField, Any]  # type: ignore[assignment]  # its keys are checked

    name: str = Field(max_length=63, pattern=_CONTAINER_NAME)
    image: str | None = Field(default=None, max_length=1024)
    command: Items[str] = Field(default=(), max_length=1024)
    args: Items[str] = Field(default=(), max_length=1024)
    env: Items[EnvironmentVariable] = Field(default=(), max_length=1024)
    working_dir: str | None = Field(default=None, max_length=4096)
    resources: ResourceRequirements = ResourceRequirements()


class PodSpec(ResourceModel):
    """A pod's spec: its containers are read, all else passed on."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[PodField, Any]  # type: ignore[assignment]  # its keys are checked

    containers: Annotated[Items[Container], Field(min_length=1, max_length=32)]


class TemplateMetadata(ResourceModel):
    """Labels and annotations of the pods; passed on."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[MetadataField, Any]  # type: ignore[assignment]  # its keys are checked


class PodTemplate(ResourceModel):
    """A PodTemplateSpec of Kubernetes."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    metadata: TemplateMetadata = TemplateMetadata()
    spec: PodSpec

    def container(self, name: str) -> Container:
        """Return the container of this name. Raises KeyError where the pod has none."""
        for container in self.spec.containers:
            if container.name == name:
                return container
        raise KeyError(name)
