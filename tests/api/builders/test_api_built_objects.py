"""A real API server takes what is built, and what it would refuse is refused before."""

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from harmony_operator.builders.group import build_group
from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.builders.service import build_service
from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.observed import ClusterState, ObservedJob
from harmony_operator.template_check import template_errors
from operator_values import SETTINGS, group, job, member, slot, template

Kubectl = Callable[..., str]

CPU = SlotBinding(slot="node-a/0", node="node-a", devices=("node-a/0",))
CLAIMED = SlotBinding(slot="s", node="node-a", devices=None, claim_name="g-12345-0")
RESERVED = SlotBinding(slot="s", node="node-a", devices=("GPU-1",), visible_devices="GPU-1")


def create(kubectl: Kubectl, manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return the object as the API server would store it."""
    answer = kubectl(
        "create",
        "--dry-run=server",
        "--validate=strict",
        "--output=json",
        "--filename=-",
        input=json.dumps(manifest),
    )
    stored: dict[str, Any] = json.loads(answer)
    return stored


def worker_pod(of: ObservedJob, binding: SlotBinding = CPU) -> dict[str, Any]:
    within = group(member(of)).key.name
    return build_worker_pod(of, 0, "mlr-worker-0", within, binding, "{}", SETTINGS)


@pytest.mark.parametrize("binding", [CPU, CLAIMED, RESERVED], ids=["cpu", "claim", "reservation"])
def test_worker_pods_are_taken(kubectl: Kubectl, namespace: str, binding: SlotBinding) -> None:
    of = job(namespace=namespace, workers={"gpusPerWorker": 1}, iterations=5)
    create(kubectl, worker_pod(of, binding))


def test_a_rich_template_is_taken_with_all_that_harmony_adds(
    kubectl: Kubectl, namespace: str
) -> None:
    rich = template(
        containers=[
            {
                "name": "worker",
                "image": "train",
                "env": [
                    {"name": "HARMONY_JOB", "value": "mine"},
                    {"name": "WHERE", "value": "$(HARMONY_SERVERS)"},
                ],
                "resources": {"limits": {"cpu": 1, "memory": "1Gi"}},
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            }
        ],
        initContainers=[{"name": "fetch", "image": "fetch"}],
        volumes=[{"name": "data", "emptyDir": {}}],
        securityContext={"runAsNonRoot": True, "supplementalGroups": [7]},
        affinity={
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [
                        {"matchExpressions": [{"key": "zone", "operator": "Exists"}]},
                        {"matchExpressions": [{"key": "rack", "operator": "Exists"}]},
                    ]
                }
            }
        },
    )
    of = job(namespace=namespace, workers={"gpusPerWorker": 1, "template": rich})
    assert template_errors(of) == ()
    create(kubectl, worker_pod(of, CLAIMED))


def test_servers_services_and_groups_are_taken(kubectl: Kubectl, namespace: str) -> None:
    of = job(namespace=namespace, checkpoint={"volumeClaimName": "ckpt"})
    create(kubectl, build_server_pod(of, 0, "mlr-server-0", SETTINGS))
    create(kubectl, build_service(of))
    create(kubectl, build_group(namespace, "g-12345", group(member(of)).spec))


def test_what_binds_devices_is_taken(kubectl: Kubectl, namespace: str) -> None:
    of = group(slots=(slot(gpus=2),), namespace=namespace)
    [claim] = ClaimBinding(SETTINGS).wanted(of, ClusterState(now_seconds=0))
    requests = create(kubectl, claim)["spec"]["devices"]["requests"]
    assert [one["exactly"]["count"] for one in requests] == [1, 1]
    [pod] = ReservationBinding(SETTINGS).wanted(of, ClusterState(now_seconds=0))
    create(kubectl, pod)


WORKER = {"name": "worker", "image": "train"}


@pytest.mark.parametrize(
    "spec",
    [
        {"containers": [{"name": "worker"}]},
        {"containers": [WORKER, {"name": "Other", "image": "x"}]},
        {"containers": [WORKER], "initContainers": [WORKER]},
        {"containers": [WORKER], "volumes": [{"name": "a_b", "emptyDir": {}}]},
        {"containers": [WORKER], "volumes": 2 * [{"name": "a", "emptyDir": {}}]},
        {"containers": [WORKER], "nodeSelector": {"zone": "a b"}},
        {"containers": [WORKER], "nodeSelector": {"-zone": "a"}},
        {"containers": [WORKER], "dnsPolicy": "default"},
        {"containers": [WORKER], "terminationGracePeriodSeconds": "30"},
        {"containers": [{**WORKER, "imagePullPolicy": "always"}]},
        {"containers": [{**WORKER, "terminationMessagePolicy": "Log"}]},
        {"containers": [{**WORKER, "ports": [{"containerPort": 70000}]}]},
        {"containers": [{**WORKER, "ports": [{"containerPort": 70, "protocol": "tcp"}]}]},
        {"containers": [{**WORKER, "resources": {"requests": {"cpu": 2}, "limits": {"cpu": 1}}}]},
        {"containers": [{**WORKER, "resources": {"limits": {"memory": "1 GB"}}}]},
        {"containers": [{**WORKER, "volumeMounts": [{"name": "a", "mountPath": "/a"}]}]},
        {"containers": [{**WORKER, "securityContext": {"run_as_user": 1}}]},
        {
            "containers": [
                {**WORKER, "volumeMounts": 2 * [{"name": "a", "mountPath": "/a"}]},
            ],
            "volumes": [{"name": "a", "emptyDir": {}}],
        },
    ],
    ids=lambda spec: str(spec)[:60],
)
def test_what_the_api_server_would_refuse_is_found_before(
    kubectl: Kubectl, namespace: str, spec: dict[str, Any]
) -> None:
    of = job(namespace=namespace, workers={"template": {"spec": spec}})
    assert of.errors or template_errors(of)
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "as-it-is", "namespace": namespace},
        "spec": spec,
    }
    with pytest.raises(Exception, match=r"(?i)invalid|unknown|required|cannot"):
        create(kubectl, pod)
