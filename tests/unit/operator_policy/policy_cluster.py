"""A cluster in memory for one job: what the policies decide is done to plain objects.

It is built from the manifests that the builders make, read by the operator's own parser, so
only the API server and the kubelets are played; those parts have tests of their own.
"""

import copy
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from harmony_api import labels
from harmony_api.conditions import Condition, ConditionType
from harmony_api.harmony_group import GroupMember, GroupSlot, HarmonyGroupSpec, HarmonyGroupStatus
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.actions import (
    Actions,
    Annotate,
    Create,
    Delete,
    Event,
    ReplaceSpec,
    Step,
    Try,
)
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.gpu_binding.none import NoBinding
from harmony_operator.observed import (
    ApiProblem,
    ClusterState,
    LiveWorker,
    ObjectKey,
    ObservedClaim,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    ObservedReservation,
    ObservedService,
    VolumeClaim,
)
from harmony_operator.parsing import parse_job, parse_pod, parse_service, parse_volume_claim
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.policies.internal_error import internal_error
from harmony_operator.reconcile import reconcile
from harmony_operator.settings import OperatorSettings
from harmony_operator.view import JobView, view_of

SETTINGS = OperatorSettings(sidecar_image="sidecar:1", server_image="server:1")
START = 1_800_000_000.0
KEY = ObjectKey("team", "mlr")
GRACE_SECONDS = 30.0
CLAIM = ObjectKey("team", "ckpt")
"""A volume claim that a job may name; one node at a time can write it."""
NARROW = VolumeClaim(access_modes=frozenset({"ReadWriteOnce"}))

Refusal = Callable[[Step], ApiProblem | None]


def time_text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def job_manifest(*, workers: int = 1, servers: int = 1, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "worker", "image": "training:1"}]}}
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": KEY.name, "namespace": KEY.namespace},
        "spec": {
            "parameterServers": {"replicas": servers},
            "workers": {"replicas": workers, "template": template},
            **spec,
        },
    }


def foreign_servers(replicas: int = 1) -> dict[str, Any]:
    container = {"name": "server", "image": "ps-lite:1", "command": ["serve"]}
    return {"replicas": replicas, "template": {"spec": {"containers": [container]}}}


@dataclass
class Cluster:
    """One job, its pods, and hands to play kubelet, planner and user with."""

    manifest: dict[str, Any]
    now: float = START
    pods: dict[str, dict[str, Any]] = field(default_factory=dict)
    services: dict[ObjectKey, ObservedService] = field(default_factory=dict)
    group: ObservedGroup | None = None
    left_groups: list[ObservedGroup] = field(default_factory=list)
    """In which the job is no member any more."""
    memory: PlanMemory = field(default_factory=PlanMemory)
    nodes: dict[str, bool] = field(default_factory=lambda: {"node-a": True, "node-b": True})
    priorities: dict[str, int] = field(default_factory=dict)
    volume_claims: dict[ObjectKey, VolumeClaim] = field(default_factory=lambda: {CLAIM: NARROW})
    claims: dict[ObjectKey, ObservedClaim] = field(default_factory=dict)
    reservations: dict[ObjectKey, ObservedReservation] = field(default_factory=dict)
    binding: GpuBinding = field(default_factory=NoBinding)
    live: dict[int, LiveWorker] = field(default_factory=dict)
    problem: ApiProblem | None = None
    refuse: Refusal = lambda step: None
    error: Exception | None = None
    """What a pass fails with."""
    job_exists: bool = True
    events: list[Event] = field(default_factory=list)
    created: list[str] = field(default_factory=list)
    counted: list[str | None] = field(default_factory=list)
    status_writes: int = 0
    _uids: int = 0

    def __post_init__(self) -> None:
        self.manifest["metadata"] |= {
            "uid": "job-uid",
            "generation": 1,
            "creationTimestamp": time_text(self.now),
        }

    # what is seen

    @property
    def job(self) -> ObservedJob:
        return parse_job(self.manifest)

    @property
    def status(self) -> HarmonyJobStatus:
        return self.job.status

    def pod(self, name: str) -> ObservedPod:
        observed = parse_pod(self.pods[name])
        assert observed is not None
        return observed

    def state(self) -> ClusterState:
        return ClusterState(
            now_seconds=self.now,
            jobs={KEY: self.job},
            pods={self.pod(name).key: self.pod(name) for name in self.pods},
            groups={one.key: one for one in (*self.left_groups, self.group) if one},
            nodes={
                name: ObservedNode(name=name, ready=ready, schedulable=ready)
                for name, ready in self.nodes.items()
            },
            priorities=self.priorities,
            services=self.services,
            volume_claims=self.volume_claims,
            claims=self.claims,
            reservations=self.reservations,
            live={KEY: self.live},
            problems={KEY: self.problem} if self.problem else {},
        )

    def view(self) -> JobView:
        view = view_of(KEY, self.state(), self.binding, self.memory)
        assert view is not None
        return view

    def condition(self, kind: ConditionType) -> Condition:
        return next(one for one in self.status.conditions if one.type == kind)

    def reason(self, kind: ConditionType) -> str:
        return self.condition(kind).reason

    @property
    def event_reasons(self) -> list[str]:
        return [event.reason for event in self.events]

    # the operator

    def look(self, *, killed_after: int | None = None) -> Actions:
        """One pass, as the operator does it; it may be killed after so many writes."""
        if self.error is not None:
            actions = internal_error(self.job, self.error, self.now)
            self._conclude(actions)
            return actions
        actions = reconcile(self.view(), SETTINGS)
        writes = 0
        for step in actions.steps:
            if writes == killed_after:
                return actions
            problem = self.refuse(step)
            if problem is not None:
                self.problem = problem
                self._conclude(reconcile(self.view(), SETTINGS))
                return actions
            self._do(step)
            writes += 1
        if writes != killed_after and self.problem is None:
            self._conclude(actions)
        self.problem = None
        return actions

    def settle(self) -> None:
        """Pass until nothing is left to do at this moment."""
        for _ in range(50):
            if not self.job_exists:
                return
            before = self.snapshot()
            self.look()
            if self.snapshot() == before:
                return
        raise AssertionError("it never comes to rest")

    def snapshot(self) -> object:
        return copy.deepcopy((self.manifest, self.pods, self.services, self.job_exists))

    def _conclude(self, actions: Actions) -> None:
        if actions.status is not None and actions.status != self.status:
            if actions.status.restarts > self.status.restarts:
                self.counted.append(actions.status.last_counted_pod_uid)
            self.manifest["status"] = actions.status.to_dict()
            self.status_writes += 1
        self.events += actions.events

    def _do(self, step: Step) -> None:
        match step:
            case Create(manifest):
                self._create(copy.deepcopy(dict(manifest)))
            case Try(manifest):
                assert manifest["metadata"]["name"] not in self.pods
            case Delete(kind="HarmonyJob"):
                self.job_exists = False
            case Delete():
                self.delete(step.key.name, uid=step.uid)
            case Annotate():
                annotations = self.pods[step.key.name]["metadata"].setdefault("annotations", {})
                annotations.update(step.annotations)
            case ReplaceSpec():
                raise AssertionError("a pass over a job does not change groups")

    def _create(self, manifest: dict[str, Any]) -> None:
        metadata = manifest["metadata"]
        key = ObjectKey(metadata["namespace"], metadata["name"])
        if manifest["kind"] == "Service":
            self.services[key] = parse_service(manifest)
            return
        if manifest["kind"] == "PersistentVolumeClaim":
            assert key not in self.volume_claims, "a claim is made once"
            self.volume_claims[key] = parse_volume_claim(manifest)
            return
        assert metadata["name"] not in self.pods, "a name is used once at a time"
        self._uids += 1
        metadata |= {"uid": f"pod-{self._uids}", "creationTimestamp": time_text(self.now)}
        manifest["status"] = {"phase": "Pending"}
        self.pods[metadata["name"]] = manifest
        self.created.append(metadata["name"])

    # the planner

    def place(self, *nodes: str, name: str = "g-1", generation: int = 1, gpus: int = 0) -> None:
        """Give worker i a slot on the i-th node."""
        slots = tuple(
            GroupSlot(name=f"{node}/cpu-{index}", node=node, gpus=gpus)
            for index, node in enumerate(nodes)
        )
        member = GroupMember(
            job=KEY.name, namespace=KEY.namespace, job_uid="job-uid",
            slot_indices=tuple(range(len(nodes))), order=0, reason=f"alone on {nodes[0]}",
        )  # fmt: skip
        self.group = ObservedGroup(
            key=ObjectKey(KEY.namespace, name), uid=f"{name}-uid", created_seconds=self.now,
            deleting=False, status=HarmonyGroupStatus(),
            spec=HarmonyGroupSpec(generation=generation, slots=slots, members=(member,)),
        )  # fmt: skip
        self.memory = PlanMemory()

    def unplace(self, why: str = "waits for a slot", **remarks: Any) -> None:
        self.group = None
        self.memory = PlanMemory(waiting={KEY: why}, **remarks)

    # the user

    def edit(self, **spec: Any) -> None:
        self.manifest["spec"] |= spec
        self.manifest["metadata"]["generation"] += 1

    # kubelet and controllers

    def start(self, *names: str, ready: bool = True) -> None:
        for name in names or tuple(self.pods):
            pod = self.pods[name]
            if self.pod(name).finished:
                continue
            affinity = pod["spec"].get("affinity", {}).get("nodeAffinity")
            pod["spec"].setdefault("nodeName", _node_of(affinity))
            self._main(name, {"running": {"startedAt": time_text(self.now)}})
            pod["status"]["phase"] = "Running"
            self.set_condition(name, "Ready", "True" if ready else "False")

    def exit(self, name: str, code: int = 0, **terminated: Any) -> None:
        """End the main container, as a kubelet reports it."""
        ended = {
            "exitCode": code,
            "reason": "Completed" if code == 0 else "Error",
            "startedAt": time_text(self.now),
            "finishedAt": time_text(self.now),
        }
        self._main(name, {"terminated": ended | terminated})
        self.pods[name]["status"]["phase"] = "Succeeded" if code == 0 else "Failed"
        self.set_condition(name, "Ready", "False")

    def fail_without_container(self, name: str, reason: str, message: str = "") -> None:
        self.pods[name]["status"] |= {"phase": "Failed", "reason": reason, "message": message}

    def set_condition(self, name: str, kind: str, status: str, **more: str) -> None:
        conditions = self.pods[name]["status"].setdefault("conditions", [])
        conditions[:] = [one for one in conditions if one["type"] != kind]
        conditions.append({"type": kind, "status": status, **more})

    def wait_in_container(self, name: str, reason: str, message: str = "") -> None:
        self._main(name, {"waiting": {"reason": reason, "message": message}})

    def delete(self, name: str, uid: str | None = None) -> None:
        pod = self.pods.get(name)
        if pod is None or (uid is not None and pod["metadata"]["uid"] != uid):
            return
        ended = pod["status"].get("phase") in ("Succeeded", "Failed")
        if ended or not pod["spec"].get("nodeName"):
            del self.pods[name]
            return
        pod["metadata"].setdefault("deletionTimestamp", time_text(self.now + GRACE_SECONDS))

    def reap(self) -> None:
        """Let every pod that is being deleted on an answering node be gone."""
        for name in list(self.pods):
            leaving = "deletionTimestamp" in self.pods[name]["metadata"]
            if leaving and self.nodes.get(self.pod(name).node, True):
                del self.pods[name]

    def stop_obediently(self) -> None:
        """Let workers that were told to stop leave with 75."""
        for name in list(self.pods):
            pod = self.pod(name)
            told = pod.stop_asked_seconds is not None and '"stop":true' in pod.node_plan
            if told and not pod.finished and pod.deleting_since_seconds is None:
                self.exit(name, 75)

    def _main(self, name: str, state: dict[str, Any]) -> None:
        role = self.pods[name]["metadata"]["labels"][labels.ROLE]
        self.pods[name]["status"]["containerStatuses"] = [{"name": role, "state": state}]

    # shortcuts

    def run(self) -> "Cluster":
        """Admit the job and let all its pods run."""
        self.settle()
        spec = self.job.job
        assert spec is not None
        nodes = ["node-a", "node-b"]
        self.place(*(nodes[i % 2] for i in range(spec.spec.workers.least)))
        self.settle()
        self.start()
        self.settle()
        return self

    def pass_time(self, seconds: float) -> None:
        self.now += seconds
        self.settle()

    def lose_node(self, name: str) -> None:
        self.nodes[name] = False

    def observe(self, worker: int, iteration: int, **profile: Any) -> None:
        name = next(
            one
            for one in self.pods
            if self.pod(one).index == worker and self.pod(one).role == "worker"
        )
        self.live[worker] = replace(
            LiveWorker(pod_uid=self.pod(name).uid, iteration=iteration, profile=None,
                       asked_seconds=self.now), **profile,
        )  # fmt: skip


def _node_of(affinity: Any) -> str:
    if not affinity:
        return "node-a"
    terms = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    field_ = next(
        one
        for term in terms
        for one in (*term.get("matchFields", ()), *term.get("matchExpressions", ()))
    )
    node: str = field_["values"][0]
    return node
