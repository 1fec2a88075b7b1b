"""What happens to a cluster under its jobs: nothing is lost, and the conditions say what is up."""

import json
import time
from collections.abc import Callable

import pytest
from e2e_jobs import STOPPED, Jobs, exit_code, training

from cluster import harmony as installation
from cluster.provider import Cluster

Kubectl = Callable[..., str]

OUTAGE_SECONDS = 60


@pytest.mark.timeout(900)
def test_workers_that_are_stopped_leave_at_one_iteration_and_go_on_from_there(jobs: Jobs) -> None:
    job = training("calm")
    job["spec"]["workers"]["replicas"] = 2
    jobs.apply(job)
    workers = [f"calm-worker-{index}" for index in range(2)]
    for index in range(2):
        jobs.wait_for_iteration("calm", 20, index)
    for name in workers:
        jobs.hold(name)
    jobs.kubectl("patch", "hj", "calm", "--type=merge", '--patch={"spec":{"suspend":true}}')
    for name in workers:
        what = f"{name} ends"
        code = jobs.wait(what, lambda name=name: exit_code(jobs.get("pod", name), "worker"))
        assert code == STOPPED
    ends = [max(jobs.losses("calm", index)) for index in range(2)]
    assert ends[0] == ends[1], "all workers of a job stop at one iteration"
    for name in workers:
        jobs.let_go(name)
    jobs.wait("the workers have left", lambda: not jobs.pods("calm"))
    jobs.wait_for("calm", "Suspended", reason="SuspendedBySpec")
    assert jobs.status("calm")["restarts"] == 0
    assert len(jobs.pods("calm", "server")) == 1, "without a checkpoint volume servers stay"
    assert jobs.all("harmonygroups") == []
    jobs.kubectl("patch", "hj", "calm", "--type=merge", '--patch={"spec":{"suspend":false}}')
    jobs.wait_for("calm", "Running")
    jobs.wait("it trains again", lambda: jobs.losses("calm"))
    assert min(jobs.losses("calm")) == ends[0] + 1, "it goes on where it stopped"


@pytest.mark.timeout(900)
def test_a_stopped_kubelet_stops_nobody_who_trains(jobs: Jobs, cluster: Cluster) -> None:
    jobs.apply(training("quiet"))
    jobs.wait_for_iteration("quiet", 10)
    [pod] = jobs.pods("quiet")
    node = pod["spec"]["nodeName"]
    cluster.stop_kubelet(node)
    try:
        jobs.wait_for("quiet", "Running", "False")
        assert node in jobs.condition("quiet", "Running")["message"]
    finally:
        cluster.start_kubelet(node)
    jobs.wait_for("quiet", "Running")
    [same] = jobs.pods("quiet")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    assert jobs.status("quiet")["restarts"] == 0


@pytest.mark.timeout(900)
def test_training_goes_on_while_the_api_server_is_away_for_a_minute(
    jobs: Jobs, cluster: Cluster
) -> None:
    jobs.apply(training("steady"))
    jobs.wait_for_iteration("steady", 10)
    [pod] = jobs.pods("steady")
    before = max(jobs.losses("steady"))
    cluster.api_server.stop()
    # Nothing to wait for: how long it is away is what this is about, and nobody can be asked.
    time.sleep(OUTAGE_SECONDS)
    cluster.api_server.start()
    jobs.wait("it trained meanwhile", lambda: max(jobs.losses("steady"), default=0) > before + 50)
    [same] = jobs.pods("steady")
    assert same["metadata"]["uid"] == pod["metadata"]["uid"]
    jobs.apply(training("late", iterations=30))
    jobs.wait_for("late", "Succeeded")
    assert jobs.status("steady")["restarts"] == 0


@pytest.mark.timeout(900)
def test_a_drained_node_costs_a_move_and_no_try(
    jobs: Jobs, cluster: Cluster, kubectl: Kubectl
) -> None:
    job = training("mover", failurePolicy={"backoffLimit": 0})
    jobs.apply(job, training("neighbour"))
    jobs.wait_for_iteration("mover", 10)
    jobs.wait_for_iteration("neighbour", 10)
    [pod] = jobs.pods("mover")
    node = pod["spec"]["nodeName"]
    [neighbour] = jobs.pods("neighbour")
    kubectl(
        "drain",
        node,
        "--ignore-daemonsets",
        "--force",
        "--delete-emptydir-data",
        "--pod-selector=harmony.dev/job-name=mover,harmony.dev/role=worker",
        "--timeout=120s",
    )
    try:

        def moved() -> bool:
            pods = jobs.pods("mover")
            return bool(pods) and all(
                one["spec"].get("nodeName") not in ("", None, node) for one in pods
            )

        jobs.wait("the worker is elsewhere", moved)
        jobs.wait_for("mover", "Running")
        assert jobs.status("mover")["restarts"] == 0
        if neighbour["spec"]["nodeName"] != node:
            [same] = jobs.pods("neighbour")
            assert same["metadata"]["uid"] == neighbour["metadata"]["uid"]
    finally:
        kubectl("uncordon", node)


def operators_node(kubectl: Kubectl) -> str:
    """The node on which the operator runs."""
    only = "--selector=app.kubernetes.io/component=operator"
    where = "jsonpath={.items[*].spec.nodeName}"
    return kubectl("--namespace", installation.NAMESPACE, "get", "pods", only, "--output", where)


@pytest.mark.timeout(900)
def test_a_lost_node_is_left_and_its_job_runs_elsewhere(
    jobs: Jobs, cluster: Cluster, kubectl: Kubectl
) -> None:
    other = operators_node(kubectl)
    [node] = set(cluster.nodes) - {other}
    kubectl("cordon", other)
    try:
        jobs.apply(training("survivor", failurePolicy={"backoffLimit": 0}))
        jobs.wait_for_iteration("survivor", 10)
    finally:
        kubectl("uncordon", other)
    cluster.stop_node(node)
    try:
        jobs.wait(
            "server and worker run on the other node",
            lambda: all(
                any(
                    one["spec"].get("nodeName") == other and one["status"]["phase"] == "Running"
                    for one in jobs.pods("survivor", role)
                )
                for role in ("server", "worker")
            ),
        )
        jobs.wait_for("survivor", "Running")
        assert jobs.status("survivor")["restarts"] == 0
    finally:
        cluster.start_node(node)


@pytest.mark.timeout(900)
def test_a_namespace_goes_while_the_operator_is_down(
    jobs: Jobs, kubectl: Kubectl, cluster: Cluster
) -> None:
    jobs.apply(training("doomed"))
    jobs.wait_for("doomed", "Running")
    place = ("--namespace", installation.NAMESPACE)
    kubectl(*place, "scale", "deployment/harmony-operator", "--replicas=0")
    try:
        kubectl("delete", "namespace", jobs.namespace, "--timeout=120s")
        assert jobs.namespace not in kubectl("get", "namespaces", "--output=name")
        kubectl("create", "namespace", jobs.namespace)
    finally:
        kubectl(*place, "scale", "deployment/harmony-operator", "--replicas=1")
        kubectl(*place, "rollout", "status", "deployment/harmony-operator", "--timeout=120s")


@pytest.mark.timeout(900)
def test_what_keeps_a_job_from_running_is_said_once_and_harms_nobody(jobs: Jobs) -> None:
    jobs.apply(training("neighbour"))
    jobs.wait_for_iteration("neighbour", 5)
    missing = training("missing")
    [container] = missing["spec"]["workers"]["template"]["spec"]["containers"]
    container |= {"image": "harmony/no-such-image:1", "imagePullPolicy": "Never"}
    unschedulable = training("unschedulable")
    [container] = unschedulable["spec"]["workers"]["template"]["spec"]["containers"]
    container["resources"] = {"requests": {"memory": "900Gi"}}
    invalid = training("invalid")
    [container] = invalid["spec"]["workers"]["template"]["spec"]["containers"]
    container["volumeMount"] = []
    for job, kind, reason in (
        (missing, "Running", "ImageMissing"),
        (unschedulable, "Running", "Unschedulable"),
        (invalid, "Valid", "InvalidTemplate"),
    ):
        name = job["metadata"]["name"]
        jobs.apply(job)
        jobs.wait_for(name, kind, "False", reason)
        said = [one for one in jobs.events(name) if one["reason"] == reason]
        assert len(said) == 1, said
        assert said[0].get("count", 1) == 1
        jobs.kubectl("delete", "hj", name)
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "tight"},
        "spec": {"hard": {"pods": "2"}},
    }
    jobs.wait("the others' pods are gone", lambda: len(jobs.all("pods")) == 2)
    jobs.kubectl("create", "--filename=-", input=json.dumps(quota))
    jobs.apply(training("crowded"))
    jobs.wait_for("crowded", "Running", "False", "QuotaExceeded")
    jobs.kubectl("delete", "resourcequota", "tight")
    jobs.wait_for("crowded", "Running")
    assert jobs.status("neighbour")["restarts"] == 0
    jobs.wait_for("neighbour", "Running")
