"""GPUs that do not exist, as a driver's slices or a device plugin's numbers tell of them."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from operator_runs import Cluster, Raw, job

from cluster.stub_nodes import StubNodes
from harmony_api.pod_layout import RESERVATION_HTTP_PORT

DEVICE_CLASS = "gpu.example.com"


def gpu_job(name: str = "mlr", *, workers: int = 1, **spec: object) -> Raw:
    """A job whose workers use one GPU each."""
    manifest = job(name, workers=workers, **spec)
    manifest["spec"]["workers"]["gpusPerWorker"] = 1
    return manifest


def role(pod: Raw) -> str:
    """Return what a pod is for."""
    name: str = pod["metadata"]["labels"]["harmony.dev/role"]
    return name


@contextmanager
def answering(address: str, port: int, answers: dict[str, str]) -> Iterator[None]:
    """Answer GET requests there by their path; pods of this tier do not run."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            text = answers.get(self.path)
            self.send_response(404 if text is None else 200)
            self.end_headers()
            self.wfile.write((text or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer((address, port), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def sliced(here: Cluster, nodes: StubNodes) -> Iterator[dict[str, str]]:
    """Offer a GPU on the first node by a ResourceSlice; yields the operator's settings."""
    node = nodes.names[0]
    here.apply(
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-gpus"},
            "spec": {
                "driver": DEVICE_CLASS,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "gpu-0"}],
            },
        }
    )
    try:
        yield {"GPU_BINDING": "claim", "DEVICE_CLASS": DEVICE_CLASS}
    finally:
        here.kubectl("delete", "resourceslice", f"{node}-gpus")


@contextmanager
def plugged(nodes: StubNodes, address: str) -> Iterator[dict[str, str]]:
    """Offer a GPU on each node, as a plugin does; reservations there tell it at the address."""
    nodes.addresses = lambda pod: address if role(pod) == "reservation" else None
    nodes.offer({"nvidia.com/gpu": "1"})
    with answering(address, RESERVATION_HTTP_PORT, {"/devices": "GPU-71\n"}):
        yield {"GPU_BINDING": "reservation"}
