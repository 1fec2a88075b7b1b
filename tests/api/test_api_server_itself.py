"""The API server of the tests is a real one, and it can go away and come back."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cluster.api_server import ApiServer
from cluster.waiting import until

OWNER = """
from cluster.local_api_server import local_api_server
with local_api_server() as server:
    print(server.kubeconfig.parent, flush=True)
    input()
"""

Kubectl = Callable[..., str]


def test_the_version_is_the_pinned_one(kubectl: Kubectl) -> None:
    assert '"gitVersion": "v1.35' in kubectl("get", "--raw", "/version")


def test_dynamic_resource_allocation_is_served(kubectl: Kubectl) -> None:
    assert "resourceclaims" in kubectl("api-resources", "--api-group=resource.k8s.io")


def test_what_an_object_owns_goes_with_it(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "create", "configmap", "owner")
    uid = kubectl("-n", namespace, "get", "configmap", "owner", "-o", "jsonpath={.metadata.uid}")
    owned = f"""
apiVersion: v1
kind: ConfigMap
metadata:
  name: owned
  ownerReferences: [{{apiVersion: v1, kind: ConfigMap, name: owner, uid: {uid}}}]
"""
    kubectl("-n", namespace, "apply", "-f", "-", input=owned)
    kubectl("-n", namespace, "delete", "configmap", "owner")
    until(
        lambda: "owned" not in kubectl("-n", namespace, "get", "configmaps", "-o", "name"),
        seconds=30,
        what="the owned object is collected",
    )


def test_a_namespace_has_a_service_account_for_its_pods(kubectl: Kubectl, namespace: str) -> None:
    until(
        lambda: "default" in kubectl("-n", namespace, "get", "serviceaccounts", "-o", "name"),
        seconds=30,
        what="the default service account",
    )


def test_what_was_stored_outlives_a_killed_api_server(
    api_server: ApiServer, kubectl: Kubectl, namespace: str
) -> None:
    kubectl("-n", namespace, "create", "configmap", "kept")
    api_server.kill()
    with pytest.raises(subprocess.CalledProcessError):
        kubectl("-n", namespace, "get", "configmap", "kept")
    api_server.start()
    assert "kept" in kubectl("-n", namespace, "get", "configmaps", "-o", "name")


def test_a_stopped_api_server_starts_again(api_server: ApiServer) -> None:
    api_server.stop()
    assert not api_server.ready()
    api_server.start()
    assert api_server.ready()


def running_with(text: str) -> list[str]:
    """The command lines, of all processes, in which `text` occurs."""
    commands = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            commands.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [command for command in commands if text in command]


def test_a_killed_owner_leaves_nothing() -> None:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    owner = subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    folder = owner.stdout.readline().strip()
    assert running_with(folder)
    owner.kill()
    owner.communicate()
    until(lambda: not running_with(folder), seconds=30, what="its processes end")
    assert not Path(folder).exists()
