"""One cluster of two nodes for all tests here, and Harmony in it for those that ask."""

import json
from collections.abc import Callable, Iterator

import pytest
from e2e_jobs import Jobs

from cluster import images, provider
from cluster.harmony import install
from cluster.waiting import until

Kubectl = Callable[..., str]

TAKEN = "gpus-of-others"
PHASES = "jsonpath={.items[*].status.phase}"


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config) -> Iterator[provider.Cluster]:
    """A real cluster; which one is the choice of who runs the tests."""
    with provider.start(pytestconfig.option.cluster) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubectl(cluster: provider.Cluster) -> Kubectl:
    """`kubectl(*arguments, input=None)` as an administrator; returns what it printed."""
    return cluster.kubectl


@pytest.fixture(scope="session")
def harmony(cluster: provider.Cluster) -> None:
    """Harmony, installed with helm; the cluster's GPUs are shared through claims."""
    install(cluster.kubeconfig)


@pytest.fixture
def jobs(harmony: None, kubectl: Kubectl, namespace: str) -> Jobs:
    """The jobs of a namespace of this test's own."""
    return Jobs(namespace, kubectl)


@pytest.fixture
def one_gpu_each(cluster: provider.Cluster, kubectl: Kubectl) -> Iterator[None]:
    """One GPU is free on every node."""
    kubectl("create", "namespace", TAKEN)
    slices = json.loads(kubectl("get", "resourceslices", "--output=json"))["items"]
    taking = 0
    for one in slices:
        if len(one["spec"]["devices"]) > 1:
            taking += 1
            for manifest in _taking(len(one["spec"]["devices"]) - 1, one["spec"]["nodeName"]):
                kubectl("-n", TAKEN, "create", "--filename=-", input=json.dumps(manifest))
    until(
        lambda: kubectl("-n", TAKEN, "get", "pods", "-o", PHASES).split() == ["Running"] * taking,
        seconds=60,
        what="the other GPUs are taken",
    )
    yield
    kubectl("delete", "namespace", TAKEN)


@pytest.fixture
def one_gpu(cluster: provider.Cluster, kubectl: Kubectl, one_gpu_each: None) -> Iterator[str]:
    """The only node with a free GPU, and one is all that it has."""
    node, *others = cluster.nodes
    for other in others:
        kubectl("cordon", other)
    yield node
    for other in others:
        kubectl("uncordon", other)


def _taking(count: int, node: str) -> list[dict[str, object]]:
    """A claim of so many GPUs, and a pod that keeps it allocated."""
    request = {"deviceClassName": "gpu.example.com", "count": count}
    container = {
        "name": "main",
        "image": images.reference("python"),
        "command": ["sleep", "3600"],
        "resources": {"claims": [{"name": "gpus"}]},
    }
    return [
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceClaim",
            "metadata": {"name": f"taken-on-{node}"},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": f"taker-on-{node}"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [container],
                "resourceClaims": [{"name": "gpus", "resourceClaimName": f"taken-on-{node}"}],
                "terminationGracePeriodSeconds": 0,
            },
        },
    ]
