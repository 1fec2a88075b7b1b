"""What the tests know of a cluster, whoever provides it.

A provider is a context manager that yields a `Cluster` and leaves nothing behind.
"""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from cluster import binaries, existing, kind, native
from cluster.binaries import Say


class ApiServerControl(Protocol):
    """The cluster's API server, to be stopped and started."""

    def stop(self) -> None:
        """End it, and wait until it does not answer any more."""

    def start(self) -> None:
        """Start it, and wait until it is ready."""


class Cluster(Protocol):
    """A running cluster with at least two nodes that run pods."""

    @property
    def kubeconfig(self) -> Path:
        """An administrator's way to the cluster."""

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the nodes that run pods."""

    @property
    def api_server(self) -> ApiServerControl:
        """The API server."""

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl as an administrator and return what it printed."""

    def stop_kubelet(self, node: str) -> None:
        """Kill the kubelet of a node; its pods go on."""

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node again."""

    def stop_node(self, node: str) -> None:
        """End everything on a node at once, as a power cut would."""

    def start_node(self, node: str) -> None:
        """Switch a node on; it is ready some seconds later."""

    def disconnect(self, node: str) -> None:
        """Cut a node off from everything else; its pods go on."""

    def connect(self, node: str) -> None:
        """Mend the link of a node that was cut off."""

    def set_extended_resource(self, node: str, resource: str, count: int) -> None:
        """Have a node offer `count` of a resource, as a device plugin would."""


def prepare(choice: str, say: Say = print) -> None:
    """Build what the cluster named by `choice` needs: minutes at first, seconds later.

    Raises `NotPossibleError`.
    """
    match choice:
        case "native":
            native.prepare(say)
        case "kind":
            kind.prepare(say)
        case _:
            binaries.ensure(("kubectl", "helm"), (), say)


def start(choice: str) -> AbstractContextManager[Cluster]:
    """Return the cluster that `choice` names: `native`, `kind`, or a kubeconfig's path."""
    match choice:
        case "native":
            return native.native_cluster()
        case "kind":
            return kind.kind_cluster()
        case kubeconfig:
            return existing.existing_cluster(Path(kubeconfig))
