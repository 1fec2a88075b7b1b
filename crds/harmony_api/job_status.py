"""HarmonyJobStatus: what the operator observed about a job, and what it must not forget.

Conditions are the truth, the rest is detail. The operator keeps nothing else about a job, so
whatever must survive its restart is here: the profile, restarts with the pod that was counted
last, partners that were too slow, and workers that have succeeded. Integers only.
"""

from typing import Annotated, Literal

from pydantic import Field

from harmony_api.conditions import Condition
from harmony_api.profile import JobProfile
from harmony_api.schema_rules import list_by
from harmony_api.status_model import StatusModel, Time

JobState = Literal[
    "Pending",
    "Invalid",
    "Waiting",
    "Starting",
    "Running",
    "Stopping",
    "Suspended",
    "Preempted",
    "Succeeded",
    "Failed",
]
"""The conditions in one word, for people."""


class AssignedGroup(StatusModel):
    """The group that the job is a member of."""

    name: str = Field(max_length=253, description="Name of the HarmonyGroup.")
    namespace: str = Field(max_length=63, description="Namespace of the HarmonyGroup.")
    slots: int = Field(ge=0, description="How many of its slots the job uses.")


class ServerReplicas(StatusModel):
    """How many servers there are."""

    desired: int = Field(default=0, ge=0, description="How many there should be now.")
    ready: int = Field(default=0, ge=0, description="How many serve.")


class WorkerReplicas(StatusModel):
    """How many workers there are."""

    desired: int = Field(default=0, ge=0, description="How many the plan gives the job.")
    ready: int = Field(default=0, ge=0, description="How many run.")
    succeeded: int = Field(default=0, ge=0, description="How many are done.")
    failed: int = Field(default=0, ge=0, description="How many failed and are not replaced yet.")


class Replicas(StatusModel):
    """How many pods there are, by role."""

    servers: ServerReplicas = ServerReplicas()
    workers: WorkerReplicas = WorkerReplicas()


class Progress(StatusModel):
    """How far the job is; written at most once a minute."""

    iteration: int = Field(ge=0, description="Iterations done, by the worker that is behind.")
    total: int | None = Field(default=None, ge=0, description="Iterations in all, where known.")
    time: Time | None = Field(default=None, description="When this was observed.")


class SharingCost(StatusModel):
    """What sharing costs the job now."""

    slowdown_percent: int | None = Field(
        default=None, description="100 x (seconds per iteration shared / alone - 1), measured."
    )
    spilled_bytes: int | None = Field(
        default=None, ge=0, description="Bytes moved out of memory until the job's turn."
    )


class Columns(StatusModel):
    """What `kubectl get` prints: made of the other fields, for people only."""

    workers: str | None = Field(default=None, max_length=32, description="Ready / desired.")
    progress: str | None = Field(default=None, max_length=64, description="Iteration / total.")
    slowdown: str | None = Field(default=None, max_length=32, description="As in 37%.")
    compute: str | None = Field(default=None, max_length=32, description="COMP, as in 120ms.")
    network: str | None = Field(
        default=None, max_length=32, description="PULL, PUSH and update, as in 80ms."
    )
    spill: str | None = Field(default=None, max_length=32, description="As in 1.5Gi.")


class HarmonyJobStatus(StatusModel):
    """What was observed about a job."""

    observed_generation: int | None = Field(
        default=None, ge=0, description="The generation of the spec that was looked at."
    )
    conditions: tuple[Condition, ...] = Field(
        default=(),
        max_length=16,
        description="The observations; one of each type.",
        json_schema_extra=list_by("type"),
    )
    state: JobState | None = Field(default=None, description="The conditions in one word.")
    group: AssignedGroup | None = Field(default=None, description="Where it has its slots.")
    replicas: Replicas = Replicas()
    progress: Progress | None = Field(default=None, description="How far it is.")
    sharing: SharingCost | None = Field(default=None, description="What sharing costs it.")
    columns: Columns | None = Field(default=None, description="What `kubectl get` prints.")
    profiles: tuple[JobProfile, ...] = Field(
        default=(),
        max_length=16,
        description="Measured cost of an iteration, one per device kind.",
        json_schema_extra=list_by("deviceKind"),
    )
    separated_from: tuple[Annotated[str, Field(max_length=36)], ...] = Field(
        default=(),
        max_length=256,
        description="Uids of jobs with which it was slower than one after the other.",
    )
    preempted_by: str | None = Field(
        default=None,
        max_length=128,
        description="namespace/name of the job that took its slots; absent when it has slots.",
    )
    succeeded_workers: tuple[Annotated[int, Field(ge=0)], ...] = Field(
        default=(),
        max_length=1024,
        description="Indices of the workers that are done; they are never started again.",
    )
    restarts: int = Field(default=0, ge=0, description="Restarts that count for backoffLimit.")
    last_counted_pod_uid: str | None = Field(
        default=None, max_length=36, description="The failed pod that was counted last."
    )
    last_restart_time: Time | None = Field(
        default=None, description="When that was; the pause before a restart begins here."
    )
    uncounted_tries: int = Field(
        default=0, ge=0, description="Tries in a row that ended soon and do not count."
    )
    last_uncounted_time: Time | None = Field(
        default=None, description="When that was; pods that are older belong to that try."
    )
    start_time: Time | None = Field(
        default=None, description="When it was admitted; begins anew after a suspension."
    )
    completion_time: Time | None = Field(default=None, description="When it succeeded or failed.")
