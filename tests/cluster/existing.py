"""A cluster that somebody else runs: the tests use it, and never stop any part of it."""

import json
import unittest
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cluster import api_server
from cluster.fake_gpus import set_extended_resource


class NotProvidedError(unittest.SkipTest):
    """What a test asks for is not to be done here; pytest skips it."""


class ExistingApiServer:
    """Somebody else's API server."""

    def stop(self) -> None:
        """Not here."""
        raise NotProvidedError("the API server of a cluster that others run is not stopped")

    start = stop


class ExistingCluster:
    """See `provider.Cluster`. It must offer what the tests need: images, GPUs and their driver."""

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.api_server = ExistingApiServer()
        nodes = json.loads(self.kubectl("get", "nodes", "--output=json"))["items"]
        self.nodes = tuple(
            node["metadata"]["name"] for node in nodes if not node["spec"].get("taints")
        )

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl with the kubeconfig that was named."""
        return api_server.kubectl(self.kubeconfig, *arguments, input=input)

    def stop_node(self, node: str) -> None:
        """Not here."""
        raise NotProvidedError(f"{node} belongs to others and is not stopped")

    start_node = stop_kubelet = start_kubelet = disconnect = connect = stop_node

    def set_extended_resource(self, node: str, resource: str, count: int) -> None:
        """Have a node offer a resource as a device plugin would."""
        set_extended_resource(self.kubectl, node, resource, count)


@contextmanager
def existing_cluster(kubeconfig: Path) -> Iterator[ExistingCluster]:
    """Use the cluster that `kubeconfig` leads to, and leave it running."""
    yield ExistingCluster(kubeconfig)
