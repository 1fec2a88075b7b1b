"""What is built for a group's slots, on real kubelets: one device for all members' workers."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cluster import images
from cluster.harmony import NAMESPACE as SYSTEM
from cluster.provider import Cluster
from cluster.waiting import until
from harmony_api import labels
from harmony_api.sidecar_state import SidecarState
from harmony_operator.builders.group import build_group
from harmony_operator.builders.node_plan import plan_for, stopping
from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import BindingProblem, GpuBinding, SlotBinding
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.reservation import (
    PATIENCE_SECONDS,
    ReservationBinding,
    reported_devices,
)
from harmony_operator.observed import ClusterState, ObservedGroup, ObservedJob
from harmony_operator.parsing import parse_claim, parse_group, parse_pod, parse_reservation
from operator_values import SETTINGS, group, job, member, slot, template

Kubectl = Callable[..., str]
Raw = Mapping[str, Any]

SECONDS = 120
GPU = "nvidia.com/gpu"
E2E_SETTINGS = replace(
    SETTINGS,
    sidecar_image=images.reference("sidecar"),
    image_pull_policy="IfNotPresent",
    reservation_environment={"NVIDIA_VISIBLE_DEVICES": "GPU-$(POD_NAME)"},
)
# Says which devices it sees, greets its sidecar as the worker protocol wants it, and stays.
PROGRAM = r"""
import os, socket, struct, time
named = [value for name, value in os.environ.items() if name.startswith("GPU_DEVICE_")]
devices = [value for value in named if value.startswith("gpu-")]
print(",".join(sorted(devices)) or os.environ["NVIDIA_VISIBLE_DEVICES"], flush=True)
sidecar = socket.socket(socket.AF_UNIX)
sidecar.connect(os.environ["HARMONY_SOCKET"])
sidecar.send(struct.pack("<HBIHHBQ", 18, 1, 0x594D5248, 1, 0, 0, 0))
time.sleep(3600)
"""


class Namespace:
    """A namespace in which a test does the operator's part by hand."""

    def __init__(self, kubectl: Kubectl, name: str) -> None:
        self.name = name
        self._kubectl = kubectl

    def kubectl(self, *arguments: str, stdin: str | None = None) -> str:
        return self._kubectl("--namespace", self.name, *arguments, input=stdin)

    def create(self, *manifests: Raw) -> None:
        for manifest in manifests:
            self.kubectl("create", "--filename=-", stdin=json.dumps(manifest))

    def objects(self, kind: str) -> list[Raw]:
        items: list[Raw] = json.loads(self.kubectl("get", kind, "--output=json"))["items"]
        return items

    def state(self, now: float = 0.0) -> ClusterState:
        claims = [parse_claim(one) for one in self.objects("resourceclaims")]
        reserving = [parse_reservation(one) for one in self.objects("pods")]
        return ClusterState(
            now_seconds=now,
            claims={one.key: one for one in claims},
            reservations={one.key: one for one in reserving if one is not None},
        )

    def create_group(self, of: ObservedGroup, binding: GpuBinding) -> ObservedGroup:
        """Create a group and what binds its slots; return it as it is then."""
        self.create(build_group(self.name, of.key.name, of.spec))
        [seen] = [
            parse_group(one)
            for one in self.objects("harmonygroups")
            if one["metadata"]["name"] == of.key.name
        ]
        assert seen is not None
        self.create(*binding.wanted(seen, self.state()))
        return seen

    def start_worker(
        self, of: ObservedJob, within: ObservedGroup, bound: SlotBinding, plan: str | None
    ) -> str:
        name = f"{of.key.name}-worker-0"
        pod = build_worker_pod(of, 0, name, within.key.name, bound, plan, E2E_SETTINGS)
        # There is no job that could own it here, and the collector would see to that.
        del pod["metadata"]["ownerReferences"]
        self.create(pod)
        return name

    def wait(self, what: str, condition: Callable[[], bool]) -> None:
        until(
            condition,
            seconds=SECONDS,
            what=what,
            details=lambda: self.kubectl("describe", "pods"),
        )

    def running(self, name: str) -> bool:
        [pod] = [parse_pod(one) for one in self.objects("pods") if one["metadata"]["name"] == name]
        return pod is not None and pod.phase == "Running" and pod.ready

    def log(self, name: str) -> str:
        """The first line that a worker prints."""
        self.wait(f"{name} runs", lambda: self.running(name))
        self.wait(f"{name} speaks", lambda: "\n" in self.kubectl("logs", name, "-cworker"))
        return self.kubectl("logs", name, "-cworker").splitlines()[0]

    def ask(self, name: str, port: int, path: str) -> str:
        where = f"/api/v1/namespaces/{self.name}/pods/{name}:{port}/proxy{path}"
        return self._kubectl("get", "--raw", where)

    def sidecar(self, name: str) -> SidecarState:
        return SidecarState.model_validate_json(self.ask(name, 9401, "/state"))


@pytest.fixture(scope="module")
def without_operator(harmony: None, kubectl: Kubectl) -> Iterator[None]:
    """Harmony's definitions and node stores; its operator rests, since the tests do its part."""
    scale = ("--namespace", SYSTEM, "scale", "deployment/harmony-operator")
    kubectl(*scale, "--replicas=0")
    selector = "--selector=app.kubernetes.io/component=operator"
    running = ("--namespace", SYSTEM, "get", "pods", selector, "--output=name")
    until(lambda: not kubectl(*running), seconds=SECONDS, what="the operator is gone")
    yield
    kubectl(*scale, "--replicas=1")
    kubectl("--namespace", SYSTEM, "rollout", "status", "deployment/harmony-operator")


@pytest.fixture
def here(without_operator: None, kubectl: Kubectl, namespace: str) -> Namespace:
    return Namespace(kubectl, namespace)


@pytest.fixture
def counted_gpu(cluster: Cluster) -> Iterator[str]:
    """A node that offers one GPU as a device plugin does."""
    node = cluster.nodes[1]
    cluster.set_extended_resource(node, GPU, 1)
    yield node
    cluster.set_extended_resource(node, GPU, 0)


def gpu_job(name: str, here: Namespace, gpus: int = 1) -> ObservedJob:
    worker = {
        "name": "worker",
        "image": images.reference("python"),
        "imagePullPolicy": "IfNotPresent",
        "command": ["python3", "-c", PROGRAM],
        "securityContext": {"runAsUser": 1000},
    }
    spec = template(containers=[worker], terminationGracePeriodSeconds=1)
    return job(name, here.name, workers={"replicas": 1, "gpusPerWorker": gpus, "template": spec})


def pair(here: Namespace, node: str, *jobs: ObservedJob, name: str, gpus: int) -> ObservedGroup:
    """A group of jobs with one worker each on one slot."""
    members = [member(of, (0,), order=order) for order, of in enumerate(jobs)]
    found = group(*members, slots=(slot(0, node=node, gpus=gpus),), namespace=here.name)
    return replace(found, key=found.key._replace(name=name))


def test_members_of_a_group_share_the_device_of_its_claim(
    cluster: Cluster, here: Namespace
) -> None:
    one, other = gpu_job("one", here), gpu_job("other", here)
    binding, node = ClaimBinding(E2E_SETTINGS), cluster.nodes[0]
    seen = here.create_group(pair(here, node, one, other, name="g-claim", gpus=1), binding)

    before = binding.bind(seen, 0, here.state())
    assert isinstance(before, SlotBinding)
    assert before.devices is None, "nothing is allocated before a pod comes"
    workers = [here.start_worker(of, seen, before, None) for of in (one, other)]
    first, second = map(here.log, workers)
    assert first == second
    assert first.startswith("gpu-")

    after = binding.bind(seen, 0, here.state())
    assert isinstance(after, SlotBinding)
    assert after.devices == (f"gpu.example.com/{node}/{first}",)
    for worker, of in zip(workers, (one, other), strict=True):
        plan = plan_for(of, seen, after, {})
        here.kubectl("annotate", "pod", worker, f"{labels.NODE_PLAN}={plan}")
        here.wait("the sidecar reads its plan", lambda w=worker: here.sidecar(w).connected)
        here.wait(
            "the plan has reached the sidecar",
            lambda w=worker: here.sidecar(w).plan_generation == seen.spec.generation,
        )
    assert sum(here.sidecar(worker).arbiter for worker in workers) == 1
    assert len({here.sidecar(worker).epoch for worker in workers}) == 1


def test_a_worker_with_one_gpu_sees_one_of_a_larger_slot(cluster: Cluster, here: Namespace) -> None:
    large, small = gpu_job("large", here, gpus=2), gpu_job("small", here, gpus=1)
    binding, node = ClaimBinding(E2E_SETTINGS), cluster.nodes[0]
    seen = here.create_group(pair(here, node, large, small, name="g-large", gpus=2), binding)
    bound = binding.bind(seen, 0, here.state())
    assert isinstance(bound, SlotBinding)
    two, one = (here.log(here.start_worker(of, seen, bound, None)) for of in (large, small))
    assert len(two.split(",")) == 2
    assert one in two.split(",")
    bound = binding.bind(seen, 0, here.state())
    assert isinstance(bound, SlotBinding)
    assert bound.devices is not None
    assert bound.devices[0].endswith(f"/{one}"), "requests and devices are in one order"


def test_what_binds_a_group_goes_when_it_does(cluster: Cluster, here: Namespace) -> None:
    of = gpu_job("one", here)
    wanted = pair(here, cluster.nodes[0], of, name="g-gone", gpus=1)
    here.create_group(wanted, ClaimBinding(E2E_SETTINGS))
    here.kubectl("delete", "harmonygroup", "g-gone")
    here.wait("the claim is collected", lambda: not here.objects("resourceclaims"))


def test_a_reservation_pod_holds_the_device_that_members_are_given(
    counted_gpu: str, here: Namespace
) -> None:
    node = counted_gpu
    one, other = gpu_job("one", here), gpu_job("other", here)
    binding = ReservationBinding(E2E_SETTINGS)
    seen = here.create_group(pair(here, node, one, other, name="g-held", gpus=1), binding)
    [reserving] = binding.wanted(seen, here.state())
    pod = reserving["metadata"]["name"]
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    here.wait(
        "the reservation answers",
        lambda: here.kubectl("get", "pod", pod, f"--output=jsonpath={path}") == "True",
    )
    assert binding.bind(seen, 0, here.state()) is None, "what it says is not written down yet"
    devices = reported_devices(here.ask(pod, 9402, "/devices"))
    here.kubectl("annotate", "pod", pod, f"{labels.DEVICES}={','.join(devices)}")
    bound = binding.bind(seen, 0, here.state())
    assert isinstance(bound, SlotBinding)
    assert bound.devices == (f"GPU-{pod}",)

    workers = []
    for of in (one, other):
        plan = plan_for(of, seen, bound, {})
        workers.append(here.start_worker(of, seen, bound, plan))
    assert [here.log(worker) for worker in workers] == 2 * [f"GPU-{pod}"]
    for worker in workers:
        here.wait("the plan is read", lambda w=worker: here.sidecar(w).plan_generation == 3)

    late = here.create_group(
        pair(here, node, gpu_job("late", here), name="g-late", gpus=1), binding
    )
    here.wait(
        "the scheduler says that the device is taken",
        lambda: isinstance(binding.bind(late, 0, here.state(now=1e12)), BindingProblem),
    )
    [refused] = [one for one in here.state().reservations.values() if one.group == "g-late"]
    assert "Insufficient nvidia.com/gpu" in refused.problem
    soon = refused.created_seconds + PATIENCE_SECONDS - 1
    assert binding.bind(late, 0, here.state(now=soon)) is None


def test_a_plan_that_says_stop_reaches_a_running_sidecar(cluster: Cluster, here: Namespace) -> None:
    of = gpu_job("one", here)
    binding = ClaimBinding(E2E_SETTINGS)
    seen = here.create_group(pair(here, cluster.nodes[0], of, name="g-stop", gpus=1), binding)
    bound = binding.bind(seen, 0, here.state())
    assert isinstance(bound, SlotBinding)
    bound = replace(bound, devices=("any",))
    plan = plan_for(of, seen, bound, {})
    assert plan is not None
    worker = here.start_worker(of, seen, bound, plan)
    here.wait("the plan is read", lambda: here.running(worker))
    here.kubectl("annotate", "--overwrite", "pod", worker, f"{labels.NODE_PLAN}={stopping(plan)}")
    show = (
        "exec",
        worker,
        "--container=harmony-sidecar",
        "--",
        "cat",
        "/etc/harmony/pod/node-plan",
    )
    here.wait("the stop is in the volume", lambda: '"stop":true' in here.kubectl(*show))
