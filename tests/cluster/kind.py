"""The same cluster for those who have Docker and kind: every node is a container."""

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from cluster import api_server, binaries, images
from cluster.binaries import NotPossibleError, Say
from cluster.fake_gpus import set_extended_resource
from cluster.native import MANIFESTS
from cluster.waiting import until

NAME = "harmony-test"
CONFIGURATION = Path(__file__).parent / "kind.yaml"
CONTROL_PLANE = f"{NAME}-control-plane"
MANIFEST = "/etc/kubernetes/manifests/kube-apiserver.yaml"
PUT_ASIDE = "/etc/kubernetes/kube-apiserver.yaml"
NETWORK = "kind"
# The nodes bring the rest themselves.
IMAGES = tuple(name for name in images.ALL if name not in {"pause", "coredns"})
SECONDS = 120


class KindApiServer:
    """The API server, a pod that the control plane's kubelet starts from a file."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig

    def stop(self) -> None:
        """Put the file aside, and wait until nothing answers."""
        _run("docker", "exec", CONTROL_PLANE, "mv", MANIFEST, PUT_ASIDE)
        until(lambda: not self._ready(), seconds=SECONDS, what="the API server is gone")

    def start(self) -> None:
        """Put the file back, and wait until the API server is ready."""
        _run("docker", "exec", CONTROL_PLANE, "mv", PUT_ASIDE, MANIFEST)
        until(self._ready, seconds=SECONDS, what="the API server is ready")

    def _ready(self) -> bool:
        with suppress(subprocess.CalledProcessError):
            api_server.kubectl(self._kubeconfig, "get", "--raw", "/readyz")
            return True
        return False


class KindCluster:
    """See `provider.Cluster`."""

    nodes = (f"{NAME}-worker", f"{NAME}-worker2")

    def __init__(self, kubeconfig: Path) -> None:
        self.kubeconfig = kubeconfig
        self.api_server = KindApiServer(kubeconfig)

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl as an administrator and return what it printed."""
        return api_server.kubectl(self.kubeconfig, *arguments, input=input)

    def stop_kubelet(self, node: str) -> None:
        """End the kubelet of a node; its pods go on."""
        _run("docker", "exec", node, "systemctl", "stop", "kubelet")

    def start_kubelet(self, node: str) -> None:
        """Start the kubelet of a node again."""
        _run("docker", "exec", node, "systemctl", "start", "kubelet")

    def stop_node(self, node: str) -> None:
        """End everything on a node at once."""
        _run("docker", "kill", node)

    def start_node(self, node: str) -> None:
        """Switch a node on."""
        _run("docker", "start", node)

    def disconnect(self, node: str) -> None:
        """Cut a node off from everything else."""
        _run("docker", "network", "disconnect", NETWORK, node)

    def connect(self, node: str) -> None:
        """Mend the link of a node that was cut off."""
        _run("docker", "network", "connect", NETWORK, node)

    def set_extended_resource(self, node: str, resource: str, count: int) -> None:
        """Have a node offer a resource as a device plugin would."""
        set_extended_resource(self.kubectl, node, resource, count)


def prepare(say: Say = print) -> None:
    """Build the images; raises `NotPossibleError` where kind does not run."""
    if missing := [tool for tool in ("docker", "kind") if shutil.which(tool) is None]:
        raise NotPossibleError(f"install {' and '.join(missing)}, or use the native cluster")
    binaries.ensure(
        ("kubectl", "helm", "dra-example-kubeletplugin"), ("buildah", "debootstrap"), say
    )
    images.build(IMAGES, say)


@contextmanager
def kind_cluster() -> Iterator[KindCluster]:
    """Run a cluster of kind's that has all images and the driver of GPUs."""
    with tempfile.TemporaryDirectory(prefix="harmony-kind-") as folder:
        kubeconfig = Path(folder) / "kubeconfig"
        name = ("--name", NAME)
        create = ("--config", str(CONFIGURATION), "--kubeconfig", str(kubeconfig), "--wait=2m")
        _run("kind", "create", "cluster", *name, *create)
        try:
            for image in IMAGES:
                archive = Path(folder) / "image.tar"
                images.export(image, archive)
                _run("kind", "load", "image-archive", *name, str(archive))
                archive.unlink()
            cluster = KindCluster(kubeconfig)
            cluster.kubectl("apply", "--filename", str(MANIFESTS / "fake-gpus.yaml"))
            cluster.kubectl(
                *("--namespace=kube-system", "rollout", "status", "daemonset/fake-gpus"),
                f"--timeout={SECONDS}s",
            )
            yield cluster
        finally:
            _run("kind", "delete", "cluster", *name)


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
