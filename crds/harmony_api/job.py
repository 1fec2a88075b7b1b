"""HarmonyJob: what a user asks for, one parameter-server training job.

The custom resource's definition is generated from these models, so they keep to what a
structural schema can say: bounded lists and strings, enums in CamelCase, integers and
quantities but no floats. Rules over several fields are validators whose message says what to
change. An object from a cluster is accepted as it is: its `status` is not looked at.
"""

from collections.abc import Mapping
from typing import Any, Final, Literal, Self

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic_core import ErrorDetails

from harmony_api.failure_policy import FailurePolicy
from harmony_api.pod_template import PodTemplate, TemplateMetadata
from harmony_api.profile import JobProfile
from harmony_api.resource_model import ResourceModel
from harmony_api.schema_rules import Rule, immutable, rules
from harmony_api.sharing import Sharing

API_VERSION: Final = "harmony.dev/v1alpha1"
KIND: Final = "HarmonyJob"
WORKER_CONTAINER: Final = "worker"
SERVER_CONTAINER: Final = "server"

LARGEST_REPLICAS: Final = 1024
LONGEST_JOB_NAME: Final = 63 - len("-worker-1023")
"""A pod's name is made of its job's, and is a host name: at most 63 characters."""
_LONGEST_SECONDS: Final = 10 * 366 * 86400
_DAY: Final = 86_400_000
"""A day in milliseconds, longer than any iteration."""
_JOB_NAME: Final = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
_OBJECT_NAME: Final = r"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"


class Metadata(TemplateMetadata):
    """Metadata of the job; the fields besides its name and namespace are passed on."""

    name: str = Field(
        max_length=LONGEST_JOB_NAME,
        pattern=_JOB_NAME,
        description="Names the job's pods and its Service: lower-case letters, digits and '-'.",
    )
    namespace: str = Field(default="default", max_length=63, pattern=_OBJECT_NAME)


class ParameterServers(ResourceModel):
    """The processes that hold parameters and optimizer state."""

    model_config = ConfigDict(json_schema_extra=rules(immutable("replicas")))

    replicas: int = Field(default=1, ge=1, le=LARGEST_REPLICAS, description="How many servers.")
    template: PodTemplate | None = Field(
        default=None,
        description="Their pods, with a container named server; absent: Harmony's own server.",
    )

    @field_validator("template")
    @classmethod
    def _has_its_container(cls, template: PodTemplate | None) -> PodTemplate | None:
        return template and _with_container(template, SERVER_CONTAINER)


class Workers(ResourceModel):
    """The processes that compute gradients: a fixed number, or a range to choose from."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="has(self.minReplicas) == has(self.maxReplicas)",
                message="minReplicas and maxReplicas go together: set both or neither",
            ),
            Rule(
                holds="!(has(self.replicas) && has(self.minReplicas))",
                message="set either replicas, or minReplicas and maxReplicas, not both",
            ),
            Rule(
                holds="!has(self.minReplicas) || !has(self.maxReplicas)"
                " || self.minReplicas <= self.maxReplicas",
                message="minReplicas is above maxReplicas: lower minReplicas",
            ),
            immutable("replicas"),
            immutable("minReplicas"),
            immutable("maxReplicas"),
            immutable("gpusPerWorker"),
        )
    )

    replicas: int | None = Field(
        default=None, ge=1, le=LARGEST_REPLICAS, description="How many workers; 1 where absent."
    )
    min_replicas: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_REPLICAS,
        description="The fewest workers that it can run with; goes with maxReplicas. Today it "
        "always runs with just so many.",
    )
    max_replicas: int | None = Field(
        default=None,
        ge=1,
        le=LARGEST_REPLICAS,
        description="The most workers that it could use; goes with minReplicas. Today it adds "
        "none.",
    )
    gpus_per_worker: int = Field(
        default=0, ge=0, le=64, description="GPUs that each worker uses; 0: a CPU slot."
    )
    template: PodTemplate = Field(description="Their pods, with a container named worker.")

    @field_validator("template")
    @classmethod
    def _has_its_container(cls, template: PodTemplate) -> PodTemplate:
        return _with_container(template, WORKER_CONTAINER)

    @model_validator(mode="after")
    def _one_way_to_count(self) -> Self:
        if (self.min_replicas is None) != (self.max_replicas is None):
            raise ValueError("minReplicas and maxReplicas go together: set both or neither")
        if self.replicas is not None and self.min_replicas is not None:
            raise ValueError("set either replicas, or minReplicas and maxReplicas, not both")
        if self.least > self.most:
            raise ValueError(
                f"minReplicas ({self.least}) is above maxReplicas ({self.most}): lower minReplicas"
            )
        return self

    @property
    def least(self) -> int:
        """The fewest workers that the job runs with."""
        return self.replicas or self.min_replicas or 1

    @property
    def most(self) -> int:
        """The most workers that the job can use."""
        return self.replicas or self.max_replicas or 1


class ProfileHint(ResourceModel):
    """What an iteration costs, as the user expects it; measurement replaces it."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="self.computeMilliseconds + self.pullMilliseconds + self.pushMilliseconds"
                " + self.updateMilliseconds > 0",
                message="an iteration that takes no time: give milliseconds, or no profile",
            )
        )
    )

    compute_milliseconds: int = Field(ge=0, le=_DAY, description="Forward and backward pass.")
    pull_milliseconds: int = Field(ge=0, le=_DAY, description="Parameters from the servers.")
    push_milliseconds: int = Field(ge=0, le=_DAY, description="Gradients to the servers.")
    update_milliseconds: int = Field(
        default=0, ge=0, le=_DAY, description="The servers' update of the parameters."
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        if not self.to_profile().iteration_seconds:
            raise ValueError("an iteration that takes no time: give milliseconds, or no profile")
        return self

    def to_profile(self) -> JobProfile:
        """Return the hint in the form of a profile that rests on 0 iterations."""
        return JobProfile(
            iterations=0,
            compute_microseconds=1000 * self.compute_milliseconds,
            pull_microseconds=1000 * self.pull_milliseconds,
            push_microseconds=1000 * self.push_milliseconds,
            update_microseconds=1000 * self.update_milliseconds,
        )


class Completion(ResourceModel):
    """When the job has succeeded, and what is left then."""

    success: Literal["AllWorkers", "ChiefWorker"] = Field(
        default="AllWorkers", description="Whose success is the job's; the chief is worker 0."
    )
    clean_servers: bool = Field(default=True, description="Remove the servers after success.")


class VolumeClaimTemplate(ResourceModel):
    """A PersistentVolumeClaim to make for each server; kept as it is."""

    model_config = ConfigDict(json_schema_extra={"x-kubernetes-preserve-unknown-fields": True})

    metadata: TemplateMetadata = TemplateMetadata()
    spec: dict[str, Any]


class Checkpoint(ResourceModel):
    """Where and how often the job's state is written down."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="!(has(self.volumeClaimName) && has(self.volumeClaimTemplate))",
                message="set either volumeClaimName or volumeClaimTemplate, not both",
            )
        )
    )

    volume_claim_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=_OBJECT_NAME,
        description="A volume claim of the namespace, which several servers must all be able to "
        "write (ReadWriteMany); a local run uses its run folder.",
    )
    volume_claim_template: VolumeClaimTemplate | None = Field(
        default=None, description="Or a volume claim for each server, made from this."
    )
    interval_seconds: int = Field(
        default=600, ge=1, le=_LONGEST_SECONDS, description="Seconds between two snapshots."
    )

    @model_validator(mode="after")
    def _one_volume(self) -> Self:
        if self.volume_claim_name is not None and self.volume_claim_template is not None:
            raise ValueError("set either volumeClaimName or volumeClaimTemplate, not both")
        return self


_TEMPLATE_STAYS: Final = (
    "a template can be changed only while the job is suspended: "
    "set suspend to true first, or delete the job and create it anew"
)


class HarmonyJobSpec(ResourceModel):
    """What the user wants.

    What the servers and workers were started with stays; what only decides about them may
    change at any time: suspend, priority, sharing, profile, failure policy, deadline.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            immutable("iterations"),
            immutable("completion"),
            immutable("checkpoint"),
            Rule(
                holds="oldSelf.suspend || self.workers.template == oldSelf.workers.template",
                message=_TEMPLATE_STAYS,
                field_path=".workers.template",
            ),
            Rule(
                holds="oldSelf.suspend"
                " || has(self.parameterServers.template) == has(oldSelf.parameterServers.template)"
                " && (!has(self.parameterServers.template)"
                " || self.parameterServers.template == oldSelf.parameterServers.template)",
                message=_TEMPLATE_STAYS,
                field_path=".parameterServers.template",
            ),
        )
    )

    suspend: bool = Field(default=False, description="Stop at an iteration and free the slots.")
    priority_class_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=_OBJECT_NAME,
        description="A PriorityClass: who is admitted first, and who may take whose slots.",
    )
    parameter_servers: ParameterServers = ParameterServers()
    workers: Workers
    sharing: Sharing = Sharing()
    profile: ProfileHint | None = Field(
        default=None, description="What an iteration costs, until it was measured."
    )
    iterations: int | None = Field(
        default=None, ge=1, le=2**53, description="Total, for progress and remaining time."
    )
    completion: Completion = Completion()
    failure_policy: FailurePolicy = FailurePolicy()
    active_deadline_seconds: int | None = Field(
        default=None,
        ge=1,
        le=_LONGEST_SECONDS,
        description="Seconds that it may run, after which it has failed; suspension not counted.",
    )
    ttl_seconds_after_finished: int | None = Field(
        default=None,
        ge=0,
        le=_LONGEST_SECONDS,
        description="Seconds after its end when it is deleted; absent: never.",
    )
    checkpoint: Checkpoint | None = Field(
        default=None, description="Where its state is kept; absent: a lost server restarts it."
    )


class HarmonyJob(ResourceModel):
    """One training job: parameter servers and workers that share slots with other jobs."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds=f"size(self.metadata.name) <= {LONGEST_JOB_NAME}",
                message=f"metadata.name is longer than {LONGEST_JOB_NAME} characters, "
                "so its pods would have no valid host name: shorten it",
            ),
            Rule(
                holds=f"self.metadata.name.matches('{_JOB_NAME}')",
                message="metadata.name must be lower-case letters, digits and '-', "
                "begin with a letter and not end with '-', because it names a Service",
            ),
        )
    )

    api_version: Literal["harmony.dev/v1alpha1"]
    kind: Literal["HarmonyJob"]
    metadata: Metadata
    spec: HarmonyJobSpec
    status: dict[str, Any] | None = Field(default=None, exclude=True)

    @classmethod
    def from_cluster(cls, manifest: Mapping[str, Any]) -> Self:
        """Read an object of an API server.

        Its definition may be newer than this code (it is upgraded first), so fields of the spec
        that are not known here are left out. Raises pydantic.ValidationError.
        """
        metadata = {key: manifest["metadata"].get(key, "default") for key in ("name", "namespace")}
        known = {**manifest, "metadata": metadata}
        try:
            return cls.model_validate(known)
        except ValidationError as error:
            if not any(_is_of_another_version(detail) for detail in error.errors()):
                raise
        return cls.model_validate(known, extra="ignore")

    @property
    def name(self) -> str:
        """The job's name."""
        return self.metadata.name


def _is_of_another_version(detail: ErrorDetails) -> bool:
    """Whether a field is unknown and not in a pod template, which is the user's own."""
    return detail["type"] == "extra_forbidden" and "template" not in detail["loc"]


def _with_container(template: PodTemplate, name: str) -> PodTemplate:
    """Return the template. Raises ValueError where no container has the name."""
    names = [container.name for container in template.spec.containers]
    if names.count(name) != 1:
        raise ValueError(f"needs one container named '{name}'; it has: {', '.join(names)}")
    return template
