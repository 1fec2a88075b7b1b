"""GPUs that are not there, in the second form in which clusters offer them.

The driver of `manifests/fake-gpus.yaml` offers devices to claims. This offers a counted resource,
as a device plugin does; nothing is behind it.
"""

import json
from collections.abc import Callable


def set_extended_resource(
    kubectl: Callable[..., str], node: str, resource: str, count: int
) -> None:
    """Have a node offer `count` of a resource like `nvidia.com/gpu`."""
    key = resource.replace("~", "~0").replace("/", "~1")
    patch = [
        {"op": "add", "path": f"/status/{field}/{key}", "value": str(count)}
        for field in ("capacity", "allocatable")
    ]
    options = ("--subresource=status", "--type=json", f"--patch={json.dumps(patch)}")
    kubectl("patch", "node", node, *options)
