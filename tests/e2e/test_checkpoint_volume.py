"""A job with a volume for snapshots survives what takes its servers away."""

import json
from collections.abc import Iterator

import pytest
from e2e_jobs import Jobs, Kubectl, Manifest, training, uids

from cluster import images
from cluster.provider import Cluster

CLAIM = "snapshots"
# A server whose process can be killed from inside of its pod: it is not the pod's first.
SERVER = {
    "name": "server",
    "image": images.reference("worker"),
    "command": ["python", "-m", "harmony_worker.parameter_server"],
}
KILL = """
import glob, os
for one in glob.glob("/proc/[0-9]*/cmdline"):
    if open(one).read().endswith(".parameter_server\\0"):
        os.kill(int(one.split("/")[2]), 9)
"""


@pytest.fixture
def claim(cluster: Cluster, kubectl: Kubectl, jobs: Jobs) -> Iterator[str]:
    """A claim of a folder on one node, which everybody may write."""
    folder = f"/var/lib/{jobs.namespace}"
    kubectl("create", "--filename=-", input=json.dumps(volume(jobs.namespace, cluster, folder)))
    jobs.kubectl("create", "--filename=-", input=json.dumps(volume_claim(jobs.namespace)))
    jobs.kubectl("create", "--filename=-", input=json.dumps(opening(folder, cluster.nodes[0])))
    jobs.wait(
        "the folder is there",
        lambda: jobs.get("pod", "opener")["status"].get("phase") == "Succeeded",
    )
    yield CLAIM
    kubectl("delete", "persistentvolume", jobs.namespace, "--wait=false")


@pytest.mark.timeout(900)
def test_training_goes_on_from_the_snapshot_after_a_suspension_and_after_a_servers_loss(
    jobs: Jobs, claim: str
) -> None:
    job = training("kept", checkpoint={"volumeClaimName": claim, "intervalSeconds": 2})
    job["spec"]["parameterServers"]["template"] = {
        "spec": {"containers": [SERVER], "shareProcessNamespace": True}
    }
    jobs.apply(job, training("neighbour"))
    for name in ("kept", "neighbour"):
        jobs.wait_for_iteration(name, 20)
    neighbours = uids(jobs.all("pods", "harmony.dev/job-name=neighbour"))
    jobs.hold("kept-worker-0")
    jobs.suspend("kept", True)
    end = jobs.last_iteration("kept")
    jobs.wait_for("kept", "Suspended", reason="SuspendedBySpec")
    assert jobs.pods("kept", "server") == [], "its state is in the volume"
    jobs.suspend("kept", False)
    jobs.wait_for("kept", "Running")
    jobs.wait_for_iteration("kept", end + 20)
    assert min(jobs.losses("kept")) == end + 1

    workers, servers = (uids(jobs.pods("kept", role)) for role in ("worker", "server"))
    jobs.kubectl("exec", "kept-server-0", "--container=server", "--", "python", "-c", KILL)
    jobs.wait("the loss is counted", lambda: jobs.status("kept")["restarts"] == 1)
    told = jobs.wait("the worker goes back", lambda: back(jobs.losses_in_order("kept")))
    before, after = told
    again = before.keys() & after.keys()
    assert min(after) > end, "it goes back to a snapshot, not to the beginning"
    assert {one: before[one] for one in again} == {one: after[one] for one in again}
    jobs.wait_for("kept", "Running")
    assert uids(jobs.pods("kept", "server")) != servers
    assert uids(jobs.pods("kept")) == workers, "its worker only waited"
    assert uids(jobs.all("pods", "harmony.dev/job-name=neighbour")) == neighbours
    assert jobs.status("neighbour")["restarts"] == 0


def back(losses: list[tuple[int, str]]) -> tuple[dict[int, str], dict[int, str]] | None:
    """Losses before and after the point at which iterations are told again, if there is one."""
    for at in range(1, len(losses)):
        if losses[at][0] <= losses[at - 1][0]:
            return dict(losses[:at]), dict(losses[at:])
    return None


def volume(name: str, cluster: Cluster, folder: str) -> Manifest:
    """A folder of the first node as a volume for one claim."""
    here = {
        "key": "kubernetes.io/hostname",
        "operator": "In",
        "values": [cluster.nodes[0]],
    }
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "",
            "claimRef": {"namespace": name, "name": CLAIM},
            "hostPath": {"path": folder, "type": "DirectoryOrCreate"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        },
    }


def volume_claim(volume_name: str) -> Manifest:
    """The claim of that volume."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": CLAIM},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "",
            "volumeName": volume_name,
        },
    }


def opening(folder: str, node: str) -> Manifest:
    """A pod that lets everybody write to a folder of a node: hostPaths are root's."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "opener"},
        "spec": {
            "nodeName": node,
            "restartPolicy": "Never",
            "containers": [
                {
                    "name": "main",
                    "image": images.reference("python"),
                    "command": ["chmod", "777", "/folder"],
                    "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
                }
            ],
            "volumes": [
                {"name": "folder", "hostPath": {"path": folder, "type": "DirectoryOrCreate"}}
            ],
        },
    }
