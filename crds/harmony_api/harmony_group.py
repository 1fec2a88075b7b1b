"""HarmonyGroup: jobs that share the same slots, and the plan that they follow.

The operator alone writes it, and it is the plan that survives a restart of the operator: a
job is admitted exactly when some group lists it as a member. Its name says nothing about its
members, because a group outlives them.
"""

from typing import Annotated, Final, Literal

from pydantic import ConfigDict, Field

from harmony_api.conditions import Condition
from harmony_api.schema_rules import Rule, list_by, rules
from harmony_api.status_model import StatusModel

API_VERSION: Final = "harmony.dev/v1alpha1"
KIND: Final = "HarmonyGroup"


class GroupSlot(StatusModel):
    """What one worker of each member uses on one node."""

    name: str = Field(max_length=253, description="Names the slot within the cluster.")
    node: str = Field(max_length=253, description="The node that the slot is on.")
    gpus: int = Field(default=0, ge=0, le=64, description="0: a CPU slot.")
    device_kind: str = Field(default="cpu", max_length=253, description="Profiles are kept by it.")


class GroupMember(StatusModel):
    """One job's place in the group."""

    job: str = Field(max_length=63, description="Name of the job.")
    namespace: str = Field(max_length=63, description="The job's namespace.")
    job_uid: str = Field(max_length=36, description="The job's uid.")
    slot_indices: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        max_length=1024, description="Index into the slots of each worker, by worker index."
    )
    order: int = Field(ge=0, description="Place in the cyclic order; the smallest goes first.")
    rounds: int = Field(default=1, ge=1, description="Its turns in one cycle of the group.")
    device_memory_bytes: int | None = Field(
        default=None,
        ge=0,
        description="Device memory that a worker may hold while others hold theirs.",
    )
    reason: str = Field(default="", max_length=1024, description="Why it is here, in words.")


class HarmonyGroupSpec(StatusModel):
    """The plan of one group."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            Rule(
                holds="self.generation >= oldSelf.generation",
                message="the generation of a plan never goes down, or sidecars would ignore it",
                field_path=".generation",
            ),
            Rule(
                holds="!has(self.members) || self.members.all(member,"
                " member.slotIndices.all(index, index < size(self.slots)))",
                message="slotIndices are indices into slots",
                field_path=".members",
            ),
        )
    )

    generation: int = Field(ge=1, description="Counts the plans of this group; the highest wins.")
    network: Literal["HalfDuplex", "FullDuplex"] = Field(
        default="HalfDuplex", description="FullDuplex: PULL and PUSH do not share the link."
    )
    slots: tuple[GroupSlot, ...] = Field(
        min_length=1,
        max_length=1024,
        description="What the members share.",
        json_schema_extra=list_by("name"),
    )
    members: tuple[GroupMember, ...] = Field(
        default=(),
        max_length=64,
        description="Who shares it, in cyclic order.",
        json_schema_extra=list_by("jobUid"),
    )


class GroupColumns(StatusModel):
    """What `kubectl get` prints: made of the other fields, for people only."""

    members: str | None = Field(default=None, max_length=1024, description="Names of the jobs.")
    slots: str | None = Field(default=None, max_length=64, description="As in 2 x 1 GPU.")
    predicted: str | None = Field(default=None, max_length=32, description="As in 120ms.")
    measured: str | None = Field(default=None, max_length=32, description="As in 125ms.")


class BoundSlot(StatusModel):
    """What binds the devices of a slot: a claim or a reservation pod in the group's namespace."""

    name: str = Field(max_length=253, description="Name of the slot.")
    devices: tuple[Annotated[str, Field(max_length=253)], ...] = Field(
        default=(),
        max_length=64,
        description="Its devices, as driver/pool/device or UUID; empty until they are known.",
    )
    claim_name: str | None = Field(
        default=None, max_length=253, description="The ResourceClaim that binds its devices."
    )
    reservation_pod: str | None = Field(
        default=None, max_length=253, description="The pod that holds its devices."
    )


class HarmonyGroupStatus(StatusModel):
    """How the plan turned out."""

    predicted_cycle_microseconds: int | None = Field(
        default=None, ge=0, description="Time in which every member runs its rounds, as planned."
    )
    measured_cycle_microseconds: int | None = Field(
        default=None, ge=0, description="The same, as measured."
    )
    correction_percent: int | None = Field(
        default=None, ge=0, description="100 x measured / predicted cycle, smoothed, for planning."
    )
    compute_utilisation_percent: int | None = Field(
        default=None, ge=0, le=100, description="Share of the cycle in which the device computes."
    )
    network_utilisation_percent: int | None = Field(
        default=None, ge=0, le=100, description="Share of the cycle in which the link is used."
    )
    slots: tuple[BoundSlot, ...] = Field(
        default=(),
        max_length=1024,
        description="Those of the spec's slots whose devices are bound; a CPU slot has none.",
        json_schema_extra=list_by("name"),
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description="Observations about the group.",
        json_schema_extra=list_by("type"),
    )
    columns: GroupColumns | None = Field(default=None, description="What `kubectl get` prints.")


class GroupMetadata(StatusModel):
    """What the operator reads of a group's metadata."""

    name: str
    namespace: str
    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)


class HarmonyGroup(StatusModel):
    """One group and its plan."""

    api_version: Literal["harmony.dev/v1alpha1"] = API_VERSION
    kind: Literal["HarmonyGroup"] = "HarmonyGroup"
    metadata: GroupMetadata
    spec: HarmonyGroupSpec
    status: HarmonyGroupStatus = HarmonyGroupStatus()
