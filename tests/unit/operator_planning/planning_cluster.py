"""A cluster as planning sees it: jobs, nodes and devices are set up, its steps are carried out."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harmony_api.conditions import Condition
from harmony_api.harmony_group import HarmonyGroupSpec, HarmonyGroupStatus
from harmony_api.job_status import HarmonyJobStatus
from harmony_api.profile import JobProfile
from harmony_operator.actions import Create, Delete, ReplaceGroupStatus, ReplaceSpec, Step
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.none import NoBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.observed import (
    ClusterState,
    LiveWorker,
    ObjectKey,
    ObservedDevice,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
)
from harmony_operator.parsing import parse_job
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.planning.planning_pass import PlanningPass, planning_pass
from harmony_operator.settings import OperatorSettings

SETTINGS = OperatorSettings(
    sidecar_image="sidecar",
    server_image="server",
    device_class="gpu.example.com",
    device_memory_headroom_percent=0,
    device_memory_headroom_bytes=0,
)
BINDINGS = {
    "none": NoBinding(),
    "claim": ClaimBinding(SETTINGS),
    "reservation": ReservationBinding(SETTINGS),
}
START = 1_800_000_000.0
GIB = 2**30


def condition(kind: str, status: str = "True") -> Condition:
    return Condition.model_validate(
        {
            "type": kind,
            "status": status,
            "reason": "Test",
            "lastTransitionTime": "2027-01-15T08:00:00Z",
        }
    )


def profile(compute: int, pull: int, push: int, **fields: Any) -> JobProfile:
    return JobProfile(
        iterations=fields.pop("iterations", 20),
        compute_microseconds=1000 * compute,
        pull_microseconds=1000 * pull,
        push_microseconds=1000 * push,
        **fields,
    )


GOOD = profile(100, 50, 50)


@dataclass
class Cluster:
    """What is seen, and the memory of one operator."""

    binding: str = "none"
    settings: OperatorSettings = SETTINGS
    now: float = START
    jobs: dict[ObjectKey, ObservedJob] = field(default_factory=dict)
    pods: dict[ObjectKey, ObservedPod] = field(default_factory=dict)
    groups: dict[ObjectKey, ObservedGroup] = field(default_factory=dict)
    nodes: dict[str, ObservedNode] = field(default_factory=dict)
    devices: list[ObservedDevice] = field(default_factory=list)
    more: dict[str, Any] = field(default_factory=dict)
    """Other fields of the state."""
    live: dict[ObjectKey, dict[int, LiveWorker]] = field(default_factory=dict)
    memory: PlanningMemory = field(default_factory=PlanningMemory)
    uids: int = 0

    def add_nodes(self, *names: str, gpus: int = 0, memory_gib: int | None = None) -> None:
        for name in names:
            allocatable = {SETTINGS.gpu_resource: gpus} if self.binding == "reservation" else {}
            self.nodes[name] = ObservedNode(
                name=name, ready=True, schedulable=True, allocatable=allocatable
            )
            self.devices += [
                ObservedDevice(
                    node=name,
                    driver="gpu.example.com",
                    pool=name,
                    name=f"gpu-{index}",
                    kind="H1",
                    memory_bytes=memory_gib and memory_gib * GIB,
                )
                for index in range(gpus)
            ]

    def set_node(self, name: str, **changes: Any) -> None:
        self.nodes[name] = replace(self.nodes[name], **changes)

    def add_job(
        self,
        name: str,
        measured: JobProfile | None = None,
        *,
        namespace: str = "team",
        workers: int = 1,
        gpus: int = 0,
        template: Mapping[str, Any] = {},
        **spec: Any,
    ) -> ObjectKey:
        """Add a job whose spec was found valid; each is created a second after the last.

        `template` is more of its workers' pod spec.
        """
        self.now += 1
        self.uids += 1
        container = {"name": "worker", "image": "training"}
        pods = {"spec": {"containers": [container], **template}}
        manifest = {
            "apiVersion": "harmony.dev/v1alpha1",
            "kind": "HarmonyJob",
            "metadata": {
                "name": name,
                "namespace": namespace,
                "uid": f"uid-{self.uids}",
                "generation": 1,
                "creationTimestamp": "2027-01-15T08:00:00Z",
            },
            "spec": {
                "workers": {"replicas": workers, "gpusPerWorker": gpus, "template": pods},
                **spec,
            },
        }
        job = parse_job(manifest)
        assert job.job is not None, job.errors
        status = HarmonyJobStatus(
            conditions=(condition("Valid"),), profiles=(measured,) if measured else ()
        )
        self.jobs[job.key] = replace(job, created_seconds=self.now, status=status)
        return job.key

    def set_status(self, key: ObjectKey, **changes: Any) -> None:
        job = self.jobs[key]
        self.jobs[key] = replace(job, status=job.status.model_copy(update=changes))

    def finish(self, key: ObjectKey) -> None:
        """Let a job succeed, and its workers be done."""
        self.set_status(key, conditions=(condition("Valid"), condition("Succeeded")))
        self.remove_pods(key)

    def suspend(self, key: ObjectKey) -> None:
        job = self.jobs[key]
        assert job.job is not None
        spec = job.job.spec.model_copy(update={"suspend": True})
        self.jobs[key] = replace(job, job=job.job.model_copy(update={"spec": spec}))

    def run_pods(self) -> None:
        """Let the worker pods of every member run in their slots, and no others."""
        self.pods.clear()
        for group in self.groups.values():
            for member in group.spec.members:
                for worker, index in enumerate(member.slot_indices):
                    slot = group.spec.slots[index]
                    key = ObjectKey(member.namespace, f"{member.job}-worker-{worker}")
                    self.pods[key] = ObservedPod(
                        key=key,
                        uid=f"{key.name}-uid",
                        job=member.job,
                        job_uid=member.job_uid,
                        role="worker",
                        index=worker,
                        group=group.key.name,
                        slot=slot.name,
                        node=slot.node,
                        phase="Running",
                    )

    def pods_of(self, key: ObjectKey) -> list[ObservedPod]:
        return [p for p in self.pods.values() if (p.key.namespace, p.job) == key]

    def remove_pods(self, key: ObjectKey) -> None:
        for pod in self.pods_of(key):
            del self.pods[pod.key]

    def set_pods(self, key: ObjectKey, **changes: Any) -> None:
        for pod in self.pods_of(key):
            self.pods[pod.key] = replace(pod, **changes)

    def observe(self, iterations: int, *keys: ObjectKey) -> None:
        """Let the workers of some jobs have done so many iterations by now."""
        for key in keys:
            self.live[key] = {
                pod.index: LiveWorker(
                    pod_uid=pod.uid, iteration=iterations, profile=None, asked_seconds=self.now
                )
                for pod in self.pods_of(key)
            }

    @property
    def state(self) -> ClusterState:
        return ClusterState(
            now_seconds=self.now,
            jobs=dict(self.jobs),
            pods=dict(self.pods),
            groups=dict(self.groups),
            nodes=dict(self.nodes),
            devices=tuple(self.devices),
            live=dict(self.live),
            **self.more,
        )

    def decide(self) -> PlanningPass:
        """One pass whose steps are not carried out."""
        return planning_pass(self.state, self.settings, BINDINGS[self.binding], self.memory)

    def plan(self) -> PlanningPass:
        """One pass, carried out."""
        result = self.decide()
        self.carry_out(result.steps)
        return result

    def settle(self) -> None:
        """Pass until there is nothing to do."""
        for _ in range(5):
            if not self.plan().steps:
                return
        raise AssertionError("planning does not come to rest")

    def carry_out(self, steps: Iterable[Step]) -> None:
        for step in steps:
            match step:
                case Create(manifest):
                    key = ObjectKey(manifest["metadata"]["namespace"], manifest["metadata"]["name"])
                    assert key not in self.groups
                    self.uids += 1
                    self.groups[key] = ObservedGroup(
                        key=key,
                        uid=f"uid-{self.uids}",
                        created_seconds=self.now,
                        deleting=False,
                        spec=HarmonyGroupSpec.model_validate(manifest["spec"]),
                        status=HarmonyGroupStatus(),
                    )
                case ReplaceSpec():
                    before = self.groups[step.key]
                    spec = HarmonyGroupSpec.model_validate(step.spec)
                    assert spec.generation == before.spec.generation + 1
                    self.groups[step.key] = replace(before, spec=spec)
                case ReplaceGroupStatus():
                    status = HarmonyGroupStatus.model_validate(step.status)
                    self.groups[step.key] = replace(self.groups[step.key], status=status)
                case Delete():
                    assert self.groups.pop(step.key).uid == step.uid
                case _:
                    raise AssertionError(f"planning does not do {step}")

    # what came out

    @property
    def members(self) -> list[set[str]]:
        """Names of the members of each group, in the order of their first member's name."""
        found = [{member.job for member in group.spec.members} for group in self.groups.values()]
        return sorted(found, key=sorted)

    def places(self, key: ObjectKey) -> list[str]:
        """Names of the slots of a job's workers; empty where no group lists it."""
        return [
            group.spec.slots[index].name
            for group in self.groups.values()
            for member in group.spec.members
            if (member.namespace, member.job) == key
            for index in member.slot_indices
        ]

    def waits(self, key: ObjectKey) -> str:
        return self.memory.remarks.waiting[key]
