"""One cluster of two nodes for all tests here, and Harmony in it for those that ask."""

import json
from collections.abc import Callable, Iterator

import pytest
from e2e_jobs import Jobs, install

from cluster import images, provider
from cluster.waiting import until

Kubectl = Callable[..., str]


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
def one_gpu(cluster: provider.Cluster, kubectl: Kubectl) -> Iterator[str]:
    """The only node with a free GPU, and one is all that it has."""
    node, *others = cluster.nodes
    for other in others:
        kubectl("cordon", other)
    slices = json.loads(kubectl("get", "resourceslices", "--output=json"))["items"]
    [devices] = [len(one["spec"]["devices"]) for one in slices if one["spec"]["nodeName"] == node]
    kubectl("create", "namespace", "gpus-of-others")
    place = ("--namespace", "gpus-of-others")
    if devices > 1:
        for manifest in _taking(devices - 1, node):
            kubectl(*place, "create", "--filename=-", input=json.dumps(manifest))
        until(
            lambda: kubectl(*place, "get", "pods", "--output=jsonpath={..phase}") == "Running",
            seconds=60,
            what="the other GPUs are taken",
        )
    yield node
    kubectl("delete", "namespace", "gpus-of-others")
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
            "metadata": {"name": "taken"},
            "spec": {"devices": {"requests": [{"name": "gpus", "exactly": request}]}},
        },
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "taker"},
            "spec": {
                "nodeSelector": {"kubernetes.io/hostname": node},
                "containers": [container],
                "resourceClaims": [{"name": "gpus", "resourceClaimName": "taken"}],
                "terminationGracePeriodSeconds": 0,
            },
        },
    ]
