"""The cluster of the tests is a real one, and its parts can fail and come back."""

import json
import subprocess
from collections.abc import Callable

import pytest

from cluster import images
from cluster.provider import Cluster
from cluster.waiting import until

Kubectl = Callable[..., str]
SECONDS = 90


def pod(name: str, script: str, **spec: object) -> dict[str, object]:
    """A pod that runs a Python script, and ends when told to."""
    container = {
        "name": "main",
        "image": images.reference("python"),
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", script],
    }
    if "resourceClaims" in spec:
        container["resources"] = {"claims": [{"name": "gpu"}]}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "containers": [container],
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            **spec,
        },
    }


def phase(kubectl: Kubectl, namespace: str, name: str) -> str:
    return kubectl("-n", namespace, "get", "pod", name, "-o", "jsonpath={.status.phase}")


def logs_of(kubectl: Kubectl, namespace: str, name: str) -> str:
    """What a pod that ended well printed."""
    until(
        lambda: phase(kubectl, namespace, name) == "Succeeded",
        seconds=SECONDS,
        what=f"{name} succeeds",
        details=lambda: kubectl("-n", namespace, "describe", "pod", name),
    )
    return kubectl("-n", namespace, "logs", name)


def ready(kubectl: Kubectl, node: str) -> bool:
    path = '{.status.conditions[?(@.type=="Ready")].status}'
    return kubectl("get", "node", node, "-o", f"jsonpath={path}") == "True"


def apply(kubectl: Kubectl, namespace: str, *objects: dict[str, object]) -> None:
    for manifest in objects:
        kubectl("-n", namespace, "apply", "-f", "-", input=json.dumps(manifest))


def test_two_nodes_are_ready_and_offer_devices(cluster: Cluster, kubectl: Kubectl) -> None:
    assert len(cluster.nodes) == 2
    assert all(ready(kubectl, node) for node in cluster.nodes)
    drivers = kubectl("get", "resourceslices", "-o", "jsonpath={.items[*].spec.driver}")
    assert drivers.split() == ["gpu.example.com"] * 2


def test_two_pods_share_a_claim_and_see_the_same_device(kubectl: Kubectl, namespace: str) -> None:
    request = {"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}
    claim = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": "shared"},
        "spec": {"devices": {"requests": [request]}},
    }
    script = "import os; print(*(v for v in os.environ.values() if v.startswith('gpu-')))"
    claims = [{"name": "gpu", "resourceClaimName": "shared"}]
    pods = [pod(name, script, resourceClaims=claims) for name in ("one", "two")]
    apply(kubectl, namespace, claim, *pods)
    first, second = (logs_of(kubectl, namespace, name) for name in ("one", "two"))
    assert first == second
    assert first.startswith("gpu-")


def test_a_service_and_a_host_name_are_found_from_the_other_node(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    server = pod(
        "server",
        "import socket\n"
        "server = socket.create_server(('', 7000))\n"
        "while True: server.accept()[0].send(b'hi')",
        nodeName=cluster.nodes[0],
        hostname="server",
        subdomain="job",
    )
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "job"},
        "spec": {"clusterIP": "None", "selector": {"app": "server"}},
    }
    balanced = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "balanced"},
        "spec": {"selector": {"app": "server"}, "ports": [{"port": 80, "targetPort": 7000}]},
    }
    ask = (
        "import socket, time\n"
        "def ask(name, port):\n"
        "    while True:\n"
        "        try: return socket.create_connection((name, port), 2).recv(2)\n"
        "        except OSError: time.sleep(0.2)\n"
        "print(ask('server.job', 7000), ask('balanced', 80))"
    )
    client = pod("client", ask, nodeName=cluster.nodes[1])
    apply(kubectl, namespace, service, balanced, server, client)
    assert logs_of(kubectl, namespace, "client") == "b'hi' b'hi'\n"


def test_pods_outlive_a_killed_kubelet(cluster: Cluster, kubectl: Kubectl, namespace: str) -> None:
    node = cluster.nodes[1]
    apply(kubectl, namespace, pod("sleeper", "import time; time.sleep(600)", nodeName=node))
    until(
        lambda: phase(kubectl, namespace, "sleeper") == "Running",
        seconds=SECONDS,
        what="the pod runs",
    )
    cluster.stop_kubelet(node)
    until(lambda: not ready(kubectl, node), seconds=SECONDS, what="the node is missed")
    cluster.start_kubelet(node)
    until(lambda: ready(kubectl, node), seconds=SECONDS, what="the node is ready again")
    restarts = "jsonpath={.status.containerStatuses[0].restartCount}"
    assert kubectl("-n", namespace, "get", "pod", "sleeper", "-o", restarts) == "0"
    assert phase(kubectl, namespace, "sleeper") == "Running"


def test_a_node_that_lost_power_comes_back_and_runs_pods(
    cluster: Cluster, kubectl: Kubectl, namespace: str
) -> None:
    node = cluster.nodes[1]
    cluster.stop_node(node)
    until(lambda: not ready(kubectl, node), seconds=SECONDS, what="the node is missed")
    cluster.start_node(node)
    until(lambda: ready(kubectl, node), seconds=SECONDS, what="the node is ready again")
    apply(kubectl, namespace, pod("hello", "print('hello')", nodeName=node))
    assert logs_of(kubectl, namespace, "hello") == "hello\n"


def test_a_node_that_was_cut_off_comes_back(cluster: Cluster, kubectl: Kubectl) -> None:
    node = cluster.nodes[1]
    cluster.disconnect(node)
    until(lambda: not ready(kubectl, node), seconds=SECONDS, what="the node is missed")
    cluster.connect(node)
    until(lambda: ready(kubectl, node), seconds=SECONDS, what="the node is ready again")


def test_the_api_server_comes_back(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.api_server.stop()
    with pytest.raises(subprocess.CalledProcessError):
        kubectl("get", "--raw", "/readyz", "--request-timeout=2s")
    cluster.api_server.start()
    until(
        lambda: all(ready(kubectl, node) for node in cluster.nodes),
        seconds=SECONDS,
        what="the nodes report to it",
    )


def test_an_extended_resource_is_offered(cluster: Cluster, kubectl: Kubectl) -> None:
    cluster.set_extended_resource(cluster.nodes[0], "nvidia.com/gpu", 2)
    path = r"jsonpath={.status.allocatable.nvidia\.com/gpu}"
    until(
        lambda: kubectl("get", "node", cluster.nodes[0], "-o", path) == "2",
        seconds=SECONDS,
        what="the node offers two",
    )
