"""The chart on a real API server, and the operator with exactly the rights that it gives."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from chart_objects import CHART, Helm

from cluster.api_server import ApiServer
from cluster.local_api_server import local_api_server
from cluster.stub_nodes import StubNodes
from cluster.waiting import until

pytestmark = [pytest.mark.api]

NAMESPACE = "harmony-system"
SERVICE_ACCOUNT = f"system:serviceaccount:{NAMESPACE}:harmony-operator"
JOB = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {"name": "digits"},
    "spec": {
        "ttlSecondsAfterFinished": 0,
        "parameterServers": {"replicas": 1},
        "workers": {
            "replicas": 1,
            "gpusPerWorker": 0,
            "template": {"spec": {"containers": [{"name": "worker", "image": "worker"}]}},
        },
    },
}


def place_of(server: ApiServer) -> tuple[str, ...]:
    return ("--kubeconfig", str(server.kubeconfig), "--namespace", NAMESPACE)


@pytest.fixture(scope="module")
def server(helm: Helm) -> Iterator[ApiServer]:
    """An API server on which the chart was installed, and nothing else."""
    with local_api_server() as server:
        helm("install", "harmony", str(CHART), *place_of(server), "--create-namespace")
        yield server


def may(server: ApiServer, *request: str) -> bool:
    try:
        answer = server.kubectl("auth", "can-i", *request, "--as", SERVICE_ACCOUNT)
    except subprocess.CalledProcessError as refusal:
        answer = refusal.stdout
    return answer.strip() == "yes"


def test_the_operator_may_do_its_work_and_nothing_beside_it(server: ApiServer) -> None:
    for request in (
        ("create", "pods", "-n", "default"),
        ("patch", "harmonyjobs.harmony.dev", "--subresource=status", "-n", "default"),
        ("create", "leases.coordination.k8s.io", "-n", NAMESPACE),
        ("patch", "leases.coordination.k8s.io/harmony-operator", "-n", NAMESPACE),
    ):
        assert may(server, *request), request
    for request in (
        ("get", "secrets", "-n", NAMESPACE),
        ("patch", "harmonyjobs.harmony.dev", "-n", "default"),
        ("create", "pods", "--subresource=exec", "-n", "default"),
        ("patch", "nodes"),
        ("patch", "leases.coordination.k8s.io/another", "-n", NAMESPACE),
        ("create", "leases.coordination.k8s.io", "-n", "default"),
    ):
        assert not may(server, *request), request


def kubeconfig_of_the_service_account(server: ApiServer, folder: Path) -> Path:
    token = server.kubectl("create", "token", "harmony-operator", "-n", NAMESPACE).strip()
    config = yaml.safe_load(server.kubeconfig.read_text())
    for user in config["users"]:
        user["user"] = {"token": token}
    path = folder / "kubeconfig"
    path.write_text(json.dumps(config))
    return path


@contextmanager
def operator_of_the_chart(server: ApiServer, folder: Path) -> Iterator[Path]:
    """Run the operator as the chart's service account, and yield its log."""
    log = folder / "operator.log"
    environment = os.environ | {
        "KUBECONFIG": str(kubeconfig_of_the_service_account(server, folder)),
        "HARMONY_OPERATOR_SIDECAR_IMAGE": "sidecar",
        "HARMONY_OPERATOR_SERVER_IMAGE": "worker",
        "HARMONY_OPERATOR_PROBE_PORT": "0",
        "HARMONY_OPERATOR_METRICS_PORT": "0",
    }
    command = [sys.executable, "-m", "harmony_operator"]
    with log.open("wb") as output:
        operator = subprocess.Popen(command, env=environment, stdout=output, stderr=output)
    try:
        yield log
        assert operator.poll() is None, log.read_text()
    finally:
        operator.terminate()
        operator.wait(30)


def test_the_operator_takes_a_job_to_its_end_with_the_rights_that_the_chart_gives(
    server: ApiServer, tmp_path: Path
) -> None:
    namespace = "training"

    def names(kind: str) -> set[str]:
        return set(server.kubectl("get", kind, "-n", namespace, "--output=name").split())

    server.kubectl("create", "namespace", namespace)
    server.kubectl("apply", "-n", namespace, "--filename=-", input=json.dumps(JOB))
    with StubNodes(server, ["node-1"]) as nodes, operator_of_the_chart(server, tmp_path) as log:
        until(
            lambda: nodes.starts[namespace, "digits-worker-0"],
            seconds=60,
            what="the worker runs",
            details=log.read_text,
        )
        assert names("services") == {"service/digits"}
        nodes.end(namespace, "digits-worker-0")
        until(
            lambda: not names("harmonyjobs") and not names("harmonygroups"),
            seconds=60,
            what="the job is over and, its time to live past, gone",
            details=log.read_text,
        )
        assert server.kubectl("get", "events", "-n", namespace, "--output=name").split()
    assert "orbidden" not in log.read_text()


def test_jobs_outlive_the_chart_and_meet_it_again(server: ApiServer, helm: Helm) -> None:
    server.kubectl("apply", "-n", "default", "--filename=-", input=json.dumps(JOB))
    helm("uninstall", "harmony", *place_of(server))
    assert server.kubectl("get", "harmonyjobs", "-n", "default", "-o", "name").split()
    assert "harmony" not in server.kubectl("get", "clusterroles", "--output=name")
    helm("install", "harmony", str(CHART), *place_of(server))
    assert server.kubectl("get", "deployment", "harmony-operator", "-n", NAMESPACE, "-o", "name")
