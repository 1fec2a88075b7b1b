"""What the operator sees of the cluster: small frozen values, mirrored from raw objects.

Only what a decision may rest on is kept, since a cluster has thousands of pods; every decision
is a function of these values, so it can be tried with no cluster. A field that an object lacks
(an older version wrote it, or nobody did yet) becomes its neutral value, never an error.
Times are seconds since the epoch.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from harmony_api.harmony_group import HarmonyGroupSpec, HarmonyGroupStatus
from harmony_api.job import HarmonyJob
from harmony_api.job_status import HarmonyJobStatus
from harmony_api.profile import JobProfile

Role = Literal["worker", "server"]
PodPhase = Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"]
_CONDITION_DOMAINS: Final = ("node.kubernetes.io", "node.cloudprovider.kubernetes.io")


class ObjectKey(NamedTuple):
    """Where an object lives; the namespace is empty for what has none."""

    namespace: str
    name: str


@dataclass(frozen=True, kw_only=True)
class ObservedJob:
    """A HarmonyJob."""

    key: ObjectKey
    uid: str
    generation: int
    created_seconds: float
    deleting: bool
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    job: HarmonyJob | None
    """The parsed object; None where the models refuse it."""
    errors: tuple[str, ...] = ()
    """Why they refuse it, each with its field path."""
    status: HarmonyJobStatus
    raw_spec: Mapping[str, object] = field(default_factory=dict)
    """The spec as the user wrote it, pod templates included."""
    unlike: HarmonyJobStatus | None = field(default=None, compare=False)
    """The status as the API server has it while `status` is yet to be written; None: the same."""

    @property
    def written(self) -> HarmonyJobStatus:
        """The status as the API server has it."""
        return self.status if self.unlike is None else self.unlike


@dataclass(frozen=True, kw_only=True)
class Termination:
    """How the main container of a pod ended."""

    exit_code: int
    reason: str = ""
    """As the kubelet says it: Completed, Error, OOMKilled..."""
    message: str = ""
    finished_seconds: float = 0.0


@dataclass(frozen=True, kw_only=True)
class ObservedPod:
    """A pod that carries Harmony's job label: a worker or a server."""

    key: ObjectKey
    uid: str
    job: str
    """Name of its job, which is in the same namespace."""
    job_uid: str
    role: Role
    index: int
    group: str = ""
    """Name of the group that it was made for; empty for a server."""
    slot: str = ""
    """Name of the slot that it was made for."""
    node_plan: str = ""
    """The node plan that it carries now, as JSON; empty before its devices are known."""
    devices: tuple[str, ...] = ()
    """UUIDs that its environment names; empty where no reservation pod holds its devices."""
    node: str = ""
    ip: str = ""
    phase: PodPhase = "Pending"
    reason: str = ""
    """The pod's own reason, such as Evicted; mostly empty."""
    message: str = ""
    ready: bool = False
    created_seconds: float = 0.0
    scheduled_seconds: float | None = None
    """When it got its node."""
    started_seconds: float | None = None
    """When its main container started to run."""
    unready_since_seconds: float | None = None
    """When it was first seen not ready; None while it is ready."""
    deleting_since_seconds: float | None = None
    """Its deletionTimestamp: when its grace period ends; None: nobody deleted it."""
    stop_asked_seconds: float | None = None
    """When it was told to stop at an iteration boundary; None: it was not."""
    termination: Termination | None = None
    """Of the container named after the role; a sidecar's end never counts."""
    waiting_reason: str = ""
    """Why a container waits, such as ImagePullBackOff, ErrImageNeverPull; sidecar included."""
    waiting_message: str = ""
    unschedulable_message: str = ""
    """What the scheduler says while it finds no node."""
    disrupted: bool = False
    """DisruptionTarget is True: drained, preempted or evicted; not the job's fault."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """Status of each condition by type."""

    @property
    def finished(self) -> bool:
        """Whether its main container will not run again."""
        return self.phase in ("Succeeded", "Failed") or self.termination is not None


@dataclass(frozen=True, kw_only=True)
class ObservedGroup:
    """A HarmonyGroup."""

    key: ObjectKey
    uid: str
    created_seconds: float
    deleting: bool
    spec: HarmonyGroupSpec
    status: HarmonyGroupStatus


class Taint(NamedTuple):
    """What keeps pods away from a node that do not tolerate it."""

    key: str
    value: str = ""
    effect: str = "NoSchedule"

    def __str__(self) -> str:
        value = f"={self.value}" if self.value else ""
        return f"{self.key}{value}:{self.effect}"

    @property
    def is_passing(self) -> bool:
        """Whether the cluster sets it, for as long as the node has trouble such as a full disk."""
        return self.key.partition("/")[0] in _CONDITION_DOMAINS


@dataclass(frozen=True, kw_only=True)
class ObservedNode:
    """A node."""

    name: str
    ready: bool
    """Its Ready condition is True; False as well when it is Unknown."""
    schedulable: bool
    """Not cordoned."""
    taints: frozenset[Taint] = frozenset()
    """Those that keep new pods away."""
    labels: Mapping[str, str] = field(default_factory=dict)
    allocatable: Mapping[str, int] = field(default_factory=dict)
    """Whole units of extended resources, by name; `cpu` in whole cores, `memory` in bytes."""


@dataclass(frozen=True, kw_only=True)
class ObservedDevice:
    """A device that a ResourceSlice offers."""

    node: str
    driver: str
    pool: str
    name: str
    kind: str = ""
    """Product name or model, where an attribute tells."""
    memory_bytes: int | None = None

    @property
    def id(self) -> str:
        """Name of the device that is unique in the cluster."""
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, kw_only=True)
class ObservedClaim:
    """A ResourceClaim, ours or not."""

    key: ObjectKey
    uid: str
    group: str = ""
    """Name of the HarmonyGroup in the same namespace that it is for; empty: not ours."""
    slot: str = ""
    owner_uid: str = ""
    """Of the HarmonyGroup that owns it: tells a group from an earlier one of the same name."""
    devices: tuple[str, ...] = ()
    """Ids of the allocated devices (see ObservedDevice.id), in the order of its requests."""
    deleting: bool = False


@dataclass(frozen=True, kw_only=True)
class ObservedReservation:
    """A reservation pod, which holds a slot's GPUs where a device plugin hands them out."""

    key: ObjectKey
    uid: str
    group: str
    slot: str
    owner_uid: str = ""
    """Of the HarmonyGroup that owns it."""
    node: str = ""
    ip: str = ""
    phase: PodPhase = "Pending"
    deleting_since_seconds: float | None = None
    """Its deletionTimestamp: when its grace period ends; None: nobody deleted it."""
    created_seconds: float = 0.0
    devices: tuple[str, ...] = ()
    """UUIDs that it reported; empty until it did."""
    problem: str = ""
    """Why it cannot run, in the words of scheduler or kubelet; empty while there is hope."""

    @property
    def deleting(self) -> bool:
        """Whether it is on its way out."""
        return self.deleting_since_seconds is not None


@dataclass(frozen=True, kw_only=True)
class ObservedService:
    """A Service that carries Harmony's role label."""

    key: ObjectKey
    owner_uid: str
    """Of the HarmonyJob that owns it: tells a job from an earlier one of the same name."""


@dataclass(frozen=True, kw_only=True)
class VolumeClaim:
    """A PersistentVolumeClaim, ours or not."""

    access_modes: frozenset[str]
    owner_uid: str = ""
    """Of the HarmonyJob that owns it; empty: it is the user's."""


@dataclass(frozen=True, kw_only=True)
class LiveWorker:
    """What a worker's sidecar answered lately; kept in memory only."""

    pod_uid: str
    iteration: int
    profile: JobProfile | None
    asked_seconds: float
    connected: bool = True
    """Its program talks to the sidecar, or did so until it was done."""
    done: bool = False
    """Its program said that it is done; it may still be on its way out."""


@dataclass(frozen=True, kw_only=True)
class ApiProblem:
    """What the API server answered to a write that failed in the last pass over a job."""

    status: int
    reason: str
    """As the API server says it: Forbidden, Invalid, AlreadyExists..."""
    message: str
    what: str
    """What was tried: `create pod team/mlr-worker-0`."""
    rehearsed: bool = False
    """Whether nothing would have been made: it was to be judged only."""


@dataclass(frozen=True, kw_only=True)
class ClusterState:
    """Everything that is seen at one moment, or the part of it that concerns one object."""

    now_seconds: float
    jobs: Mapping[ObjectKey, ObservedJob] = field(default_factory=dict)
    pods: Mapping[ObjectKey, ObservedPod] = field(default_factory=dict)
    groups: Mapping[ObjectKey, ObservedGroup] = field(default_factory=dict)
    nodes: Mapping[str, ObservedNode] = field(default_factory=dict)
    claims: Mapping[ObjectKey, ObservedClaim] = field(default_factory=dict)
    reservations: Mapping[ObjectKey, ObservedReservation] = field(default_factory=dict)
    services: Mapping[ObjectKey, ObservedService] = field(default_factory=dict)
    devices: tuple[ObservedDevice, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Value of each PriorityClass."""
    default_priority: int = 0
    live: Mapping[ObjectKey, Mapping[int, LiveWorker]] = field(default_factory=dict)
    """By job and worker index."""
    volume_claims: Mapping[ObjectKey, VolumeClaim] = field(default_factory=dict)
    problems: Mapping[ObjectKey, ApiProblem] = field(default_factory=dict)
    """By job: a write of the last pass over it that the API server refused."""
