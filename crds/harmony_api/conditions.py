"""Conditions of a HarmonyJob: their types, and every reason that one can have.

A condition is an observation: what was seen, never a state to leave. All six are always
there, so that `kubectl wait` finds them, and `Unknown` means not decided yet. A reason's
`meaning` is the sentence that the documentation prints, so the two cannot differ.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, Self

from pydantic import Field

from harmony_api.status_model import StatusModel, Time

ConditionStatus = Literal["True", "False", "Unknown"]


class _Word(StrEnum):
    """A CamelCase word and the sentence that explains it."""

    meaning: str

    def __new__(cls, word: str, meaning: str = "") -> Self:
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        return member


class ConditionType(_Word):
    """What a condition is about."""

    VALID = "Valid", "The spec and its pod templates can be carried out."
    ADMITTED = "Admitted", "The plan gives the job slots: some HarmonyGroup lists it as a member."
    RUNNING = "Running", "All its servers and workers run."
    SUSPENDED = "Suspended", "It was stopped at an iteration boundary and holds no slots."
    SUCCEEDED = "Succeeded", "It reached its goal; never taken back."
    FAILED = "Failed", "It was given up; never taken back."


class ValidReason(_Word):
    """Reasons of Valid."""

    ACCEPTED = "Accepted", "Nothing was found to correct."
    INVALID_SPEC = "InvalidSpec", "A field outside the pod templates cannot be carried out."
    INVALID_TEMPLATE = (
        "InvalidTemplate",
        "A pod template is no valid pod, or the API server refuses it; the message says why.",
    )
    UNSUPPORTED_CHECKPOINT = (
        "UnsupportedCheckpoint",
        "Several servers would share a volume that only one node can write.",
    )
    VOLUME_CLAIM_NOT_FOUND = (
        "VolumeClaimNotFound",
        "The namespace has no PersistentVolumeClaim of the checkpoint's name.",
    )
    PRIORITY_CLASS_NOT_FOUND = (
        "PriorityClassNotFound",
        "The cluster has no PriorityClass of this name.",
    )


class AdmittedReason(_Word):
    """Reasons of Admitted."""

    PLACED = "Placed", "It has slots; the message says with whom and why."
    WAITING_FOR_PLAN = "WaitingForPlan", "No plan has looked at it yet."
    WAITING_FOR_SLOT = "WaitingForSlot", "The plan gives it none now; the message says why."
    NEVER_FITS = "NeverFits", "No slot of the cluster could hold a worker, even when it is empty."
    WAITING_FOR_QUEUE = "WaitingForQueue", "It is suspended, and its queue has not resumed it."
    PREEMPTED = "Preempted", "A job of higher priority took its slots."
    SUSPENDED = "Suspended", "It is suspended by its spec."
    NOT_VALID = "NotValid", "See the condition Valid."
    FINISHED = "Finished", "It succeeded or failed, and its slots are free."


class RunningReason(_Word):
    """Reasons of Running."""

    WORKERS_RUNNING = "WorkersRunning", "Every worker and every server runs."
    NOT_ADMITTED = "NotAdmitted", "See the condition Admitted."
    SERVERS_STARTING = "ServersStarting", "Its servers are not all ready."
    WORKERS_STARTING = "WorkersStarting", "Its workers are not all ready."
    WORKERS_RESTARTING = "WorkersRestarting", "A lost or failed worker is being replaced."
    SERVERS_RESTARTING = "ServersRestarting", "A lost or failed server is being replaced."
    BACKING_OFF = "BackingOff", "After a failure it waits before the next try."
    MOVING = "Moving", "Its workers stop in one place and start in another."
    STOPPING = "Stopping", "Its workers stop at an iteration boundary."
    SUSPENDED = "Suspended", "See the condition Suspended."
    GPU_BINDING_FAILED = "GPUBindingFailed", "Its devices could not be bound; the message says why."
    UNSCHEDULABLE = (
        "Unschedulable",
        "The scheduler has no node for one of its pods for ten seconds.",
    )
    IMAGE_MISSING = "ImageMissing", "The image of one of its containers cannot be pulled."
    QUOTA_EXCEEDED = "QuotaExceeded", "A quota of the namespace refuses one of its pods."
    POD_REFUSED = "PodRefused", "The API server or a node refuses one of its pods."
    NAME_CONFLICT = "NameConflict", "An object that is not the job's has the name of its child."
    INTERNAL_ERROR = "InternalError", "The operator fails on this job; the message has the error."
    FINISHED = "Finished", "It succeeded or failed."


class SuspendedReason(_Word):
    """Reasons of Suspended."""

    NOT_SUSPENDED = "NotSuspended", "Nobody asked for it."
    STOPPING = "Stopping", "Its workers stop at an iteration boundary, then it is suspended."
    SUSPENDED_BY_SPEC = "SuspendedBySpec", "Its spec says suspend: true."
    PREEMPTED = "Preempted", "A job of higher priority took its slots; it goes on by itself."
    RESUMED = "Resumed", "It was suspended and goes on from there."
    FINISHED = "Finished", "It succeeded or failed."


class SucceededReason(_Word):
    """Reasons of Succeeded."""

    IN_PROGRESS = "InProgress", "It has not reached its goal yet."
    WORKERS_SUCCEEDED = "WorkersSucceeded", "Every worker succeeded."
    CHIEF_SUCCEEDED = "ChiefSucceeded", "Worker 0 succeeded, which is what the spec asks for."
    FAILED = "JobFailed", "See the condition Failed."


class FailedReason(_Word):
    """Reasons of Failed."""

    IN_PROGRESS = "InProgress", "Nothing made it give up so far."
    BACKOFF_LIMIT_EXCEEDED = "BackoffLimitExceeded", "It was restarted as often as allowed."
    FAILURE_POLICY_RULE = "FailurePolicyRule", "A rule of its failure policy says Fail."
    DEADLINE_EXCEEDED = "DeadlineExceeded", "It ran longer than activeDeadlineSeconds."
    SUCCEEDED = "JobSucceeded", "See the condition Succeeded."


REASONS: Final[Mapping[ConditionType, type[_Word]]] = {
    ConditionType.VALID: ValidReason,
    ConditionType.ADMITTED: AdmittedReason,
    ConditionType.RUNNING: RunningReason,
    ConditionType.SUSPENDED: SuspendedReason,
    ConditionType.SUCCEEDED: SucceededReason,
    ConditionType.FAILED: FailedReason,
}
"""The reasons that each condition can have."""


class Condition(StatusModel):
    """One observation about a job."""

    type: str = Field(max_length=316, description="What it is about; one condition per type.")
    status: ConditionStatus = Field(description="Whether it holds; Unknown: not decided yet.")
    observed_generation: int | None = Field(
        default=None, ge=0, description="The generation of the spec that was looked at."
    )
    last_transition_time: Time = Field(description="When the status last changed.")
    reason: str = Field(
        min_length=1,
        max_length=1024,
        pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        description="Why, in one word.",
    )
    message: str = Field(default="", max_length=32768, description="Why, in a sentence.")
