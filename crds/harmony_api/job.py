"""HarmonyJob: what a user asks for, one parameter-server training job.

The custom resource's definition is generated from these models, so they keep to what a
structural schema can say: bounded lists and strings, enums in CamelCase, integers and
quantities but no floats. Rules over several fields are validators whose message says what to
change. An object from a cluster is accepted as it is: its `status` is not looked at.
"""

from typing import Any, Final, Literal, Self

from pydantic import Field, field_validator, model_validator

from harmony_api.pod_template import PodTemplate, TemplateMetadata
from harmony_api.profile import JobProfile
from harmony_api.quantity import ByteQuantity, parse_bytes
from harmony_api.resource_model import Items, ResourceModel

API_VERSION: Final = "harmony.dev/v1alpha1"
KIND: Final = "HarmonyJob"
WORKER_CONTAINER: Final = "worker"
SERVER_CONTAINER: Final = "server"

LARGEST_REPLICAS: Final = 1024
LONGEST_JOB_NAME: Final = 63 - len("-worker-1023")
"""A pod's name is made of its job's, and is a host name: at most 63 characters."""
_LONGEST_SECONDS: Final = 10 * 366 * 86400
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

    replicas: int = Field(default=1, ge=1, le=LARGEST_REPLICAS, description="How many servers.")
    template: PodTemplate | None = Field(
        default=None, description="Their pods; absent: Harmony's own server."
    )

    @field_validator("template")
    @classmethod
    def _has_its_container(cls, template: PodTemplate | None) -> PodTemplate | None:
        return template and _with_container(template, SERVER_CONTAINER)


class Workers(ResourceModel):
    """The processes that compute gradients: a fixed number, or a range to choose from."""

    replicas: int | None = Field(
        default=None, ge=1, le=LARGEST_REPLICAS, description="How many workers; 1 where absent."
    )
    min_replicas: int | None = Field(default=None, ge=1, le=LARGEST_REPLICAS)
    max_replicas: int | None = Field(default=None, ge=1, le=LARGEST_REPLICAS)
    gpus_per_worker: int = Field(default=0, ge=0, le=64, description="0: a CPU slot.")
    template: PodTemplate

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


class MemoryRange(ResourceModel):
    """How much memory a worker uses, and with how little it can still run."""

    footprint: ByteQuantity = Field(max_length=32, description="What it uses when it is alone.")
    minimum: ByteQuantity | None = Field(
        default=None,
        max_length=32,
        description="What it can be held to; below the footprint it is spilled or swapped.",
    )

    @model_validator(mode="after")
    def _minimum_within_footprint(self) -> Self:
        if self.minimum_bytes > self.footprint_bytes:
            raise ValueError(
                f"minimum ({self.minimum}) is above footprint ({self.footprint}): "
                "lower minimum or raise footprint"
            )
        return self

    @property
    def footprint_bytes(self) -> int:
        """The footprint in bytes."""
        return parse_bytes(self.footprint)

    @property
    def minimum_bytes(self) -> int:
        """The minimum in bytes; the footprint where none is given."""
        return self.footprint_bytes if self.minimum is None else parse_bytes(self.minimum)


class NodeStore(ResourceModel):
    """The job's part of the node's store."""

    capacity: ByteQuantity = Field(max_length=32, description="Room for spilled blocks.")


class Sharing(ResourceModel):
    """Under which conditions the job shares its slots with others."""

    policy: Literal["Shared", "Exclusive"] = "Shared"
    max_slowdown_percent: int = Field(
        default=100,
        ge=0,
        le=10_000,
        description="100 x (seconds per iteration shared / alone - 1) that sharing may cost it.",
    )
    device_memory: MemoryRange | None = None
    host_memory: MemoryRange | None = None
    store: NodeStore | None = None


class ProfileHint(ResourceModel):
    """What an iteration costs, as the user expects it; measurement replaces it."""

    compute_milliseconds: int = Field(ge=0, le=86_400_000)
    pull_milliseconds: int = Field(ge=0, le=86_400_000)
    push_milliseconds: int = Field(ge=0, le=86_400_000)
    update_milliseconds: int = Field(default=0, ge=0, le=86_400_000)

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


class ExitCodes(ResourceModel):
    """Matches a container's exit code."""

    container_name: str | None = Field(default=None, max_length=63)
    operator: Literal["In", "NotIn"]
    values: Items[int] = Field(min_length=1, max_length=255)


class PodCondition(ResourceModel):
    """Matches a condition of a pod."""

    type: str = Field(min_length=1, max_length=316)
    status: Literal["True", "False", "Unknown"] = "True"


class FailureRule(ResourceModel):
    """What to do about one kind of failure."""

    action: Literal["Fail", "Restart", "Ignore"]
    on_exit_codes: ExitCodes | None = None
    on_pod_conditions: Items[PodCondition] = Field(default=(), max_length=20)

    @model_validator(mode="after")
    def _one_thing_to_match(self) -> Self:
        if (self.on_exit_codes is None) == (not self.on_pod_conditions):
            raise ValueError("a rule matches either onExitCodes or onPodConditions: give one")
        return self


class FailurePolicy(ResourceModel):
    """How often a job may be restarted, and what is an exception; the first match decides."""

    backoff_limit: int = Field(default=6, ge=0, le=1_000_000)
    rules: Items[FailureRule] = Field(default=(), max_length=20)


class Checkpoint(ResourceModel):
    """Where and how often the job's state is written down."""

    volume_claim_name: str | None = Field(
        default=None,
        max_length=253,
        pattern=_OBJECT_NAME,
        description="A volume claim of the namespace; a local run uses its run folder.",
    )
    interval_seconds: int = Field(default=600, ge=1, le=_LONGEST_SECONDS)


class HarmonyJobSpec(ResourceModel):
    """What the user wants."""

    suspend: bool = Field(default=False, description="Stop at an iteration and free the slots.")
    priority_class_name: str | None = Field(default=None, max_length=253, pattern=_OBJECT_NAME)
    parameter_servers: ParameterServers = ParameterServers()
    workers: Workers
    sharing: Sharing = Sharing()
    profile: ProfileHint | None = None
    iterations: int | None = Field(
        default=None, ge=1, le=2**53, description="Total, for progress and remaining time."
    )
    completion: Completion = Completion()
    failure_policy: FailurePolicy = FailurePolicy()
    active_deadline_seconds: int | None = Field(default=None, ge=1, le=_LONGEST_SECONDS)
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, le=_LONGEST_SECONDS)
    checkpoint: Checkpoint | None = None


class HarmonyJob(ResourceModel):
    """One training job."""

    api_version: Literal["harmony.dev/v1alpha1"]
    kind: Literal["HarmonyJob"]
    metadata: Metadata
    spec: HarmonyJobSpec
    status: dict[str, Any] | None = Field(default=None, exclude=True)

    @property
    def name(self) -> str:
        """The job's name."""
        return self.metadata.name


def _with_container(template: PodTemplate, name: str) -> PodTemplate:
    """Return the template. Raises ValueError where no container has the name."""
    names = [container.name for container in template.spec.containers]
    if names.count(name) != 1:
        raise ValueError(f"needs one container named '{name}'; it has: {', '.join(names)}")
    return template
