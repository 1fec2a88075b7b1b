"""Two real nodes and a control plane on this machine, without a container engine; needs root."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path

from cluster import binaries, cgroups, image_store, images
from cluster.binaries import CACHE, NotPossibleError, Say
from cluster.control_plane import ControlPlane, Place
from cluster.fake_gpus import set_extended_resource
from cluster.janitor import Janitor
from cluster.network import CONTROL_PLANE_ADDRESS, Network, NodeAddress
from cluster.node import PROXY, Node
from cluster.pki import Authority
from cluster.waiting import until

ADDRESSES = (NodeAddress("node1", 1), NodeAddress("node2", 2))
MANIFESTS = Path(__file__).parent / "manifests"
READY_SECONDS = 120
KEPT_LOGS = 5
# Programs, layers and their import: at first, and when only some of the images are new.
FIRST_BUILD_BYTES = 35_000_000_000
REBUILD_BYTES = 8_000_000_000


class NativeCluster:
    """A running cluster; `provider.Cluster` says what its methods promise."""

    def __init__(
        self, network: Network, control_plane: ControlPlane, nodes: Iterable[Node]
    ) -> None:
        self._network = network
        self._nodes = {node.at.name: node for node in nodes}
        self.nodes = tuple(self._nodes)
        self.api_server = control_plane.api_server
        self.kubeconfig = self.api_server.kubeconfig
        self.kubectl = self.api_server.kubectl

    def start_node(self, node: str) -> None:
        """Switch a node on; it is ready some seconds later."""
        started = self._nodes[node]
        others = [address for address in ADDRESSES if address.name != node]
        self._network.attach(started.at, started.boot(), others)
        started.start_services()

    def stop_node(self, node: str) -> None:
        """End everything on a node at once, as a power cut would."""
        self._nodes[node].power_off()
        self._network.detach(self._nodes[node].at)

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node again."""
        self._nodes[node].start_kubelet()

    def stop_kubelet(self, node: str) -> None:
        """Kill the kubelet of a node; its pods go on."""
        self._nodes[node].kill("kubelet")

    def connect(self, node: str) -> None:
        """Mend the link of a node that was cut off."""
        self._network.set_link(self._nodes[node].at, up=True)

    def disconnect(self, node: str) -> None:
        """Cut a node off from everything else; its pods go on."""
        self._network.set_link(self._nodes[node].at, up=False)

    def set_extended_resource(self, node: str, resource: str, count: int) -> None:
        """Have a node offer a resource as a device plugin would."""
        set_extended_resource(self.kubectl, node, resource, count)


def prepare(say: Say = print) -> None:
    """Build all that the cluster runs, which takes minutes once.

    Raises `NotPossibleError` where that cannot be done.
    """
    if os.geteuid() != 0:
        raise NotPossibleError("run as root, or name another cluster than the native one")
    binaries.check_space(REBUILD_BYTES if image_store.IDS.exists() else FIRST_BUILD_BYTES)
    binaries.ensure(say=say)
    image_store.update(images.build(images.ALL, say), say)


@contextmanager
def native_cluster() -> Iterator[NativeCluster]:
    """Run a cluster; nodes are ready, names are answered and GPUs are offered from the start."""
    running = CACHE / "running"
    running.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="cluster-", dir=running))
        groups = [f"harmony-{folder.name}-{at.name}" for at in ADDRESSES]
        leftovers = [path for group in groups for path in cgroups.paths(group)]
        stack.callback(Janitor(*leftovers, folder).clean)
        stack.callback(_keep_logs, folder)
        authority = Authority(folder / "pki")
        nodes = [
            Node(at, folder / at.name, group, authority)
            for at, group in zip(ADDRESSES, groups, strict=True)
        ]
        network = Network(folder / "log")
        stack.callback(network.stop)
        with ThreadPoolExecutor() as aside:
            copied = aside.submit(image_store.copy_to, [node.containerd_root for node in nodes])
            control_plane = _control_plane(stack, folder, network, authority, nodes)
            copied.result()
        cluster = NativeCluster(network, control_plane, nodes)
        for node in nodes:
            stack.callback(node.power_off)
            cluster.start_node(node.at.name)
        for manifest in sorted(MANIFESTS.glob("*.yaml")):
            cluster.kubectl("apply", "--filename", str(manifest))
        _wait_until_ready(cluster)
        yield cluster


def _keep_logs(folder: Path) -> None:
    """Leave what the cluster's programs wrote to who looks for a reason; the last few times."""
    logs = CACHE / "logs"
    kept = logs / folder.name
    for log in folder.glob("**/log/*.log"):
        place = kept / log.relative_to(folder).parent.parent
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy2(log, place)
    oldest_first = sorted(logs.iterdir(), key=lambda one: one.stat().st_mtime)
    for old in oldest_first[:-KEPT_LOGS]:
        shutil.rmtree(old, ignore_errors=True)


def _wait_until_ready(cluster: NativeCluster) -> None:
    """Wait until all nodes are ready and run what belongs to every node."""
    kubectl = cluster.kubectl
    until(
        lambda: kubectl("get", "nodes", "--output=name").count("node/") == len(cluster.nodes),
        seconds=READY_SECONDS,
        what="all nodes are known",
    )
    timeout = f"--timeout={READY_SECONDS}s"
    kubectl("wait", "--for=condition=Ready", "nodes", "--all", timeout)
    for name in ("coredns", "fake-gpus"):
        kubectl("--namespace=kube-system", "rollout", "status", f"daemonset/{name}", timeout)
    until(
        lambda: kubectl("get", "resourceslices", "--output=name").count("/") == len(cluster.nodes),
        seconds=READY_SECONDS,
        what="all nodes offer devices",
    )


def _control_plane(
    stack: ExitStack,
    folder: Path,
    network: Network,
    authority: Authority,
    nodes: Iterable[Node],
) -> ControlPlane:
    with socket.create_server(("127.0.0.1", 0)) as outside:
        place = Place(
            address=CONTROL_PLANE_ADDRESS,
            port_outside=outside.getsockname()[1],
            enter=network.enter,
        )
        network.forward(place.port, outside)
    users = [PROXY, *(node.user for node in nodes)]
    control_plane = ControlPlane(folder, place, authority, users=users, scheduler=True)
    stack.callback(control_plane.stop)
    control_plane.start()
    return control_plane
