"""Nodes that refuse, fall silent or lose pods cost a job neither tries nor its peace."""

from policy_cluster import Cluster, job_manifest

from harmony_api.conditions import ConditionType

RUNNING = ConditionType.RUNNING


def test_a_pod_failed_by_a_node_shutdown_is_replaced() -> None:
    cluster = Cluster(job_manifest()).run()
    reason = "Terminated", "Pod was terminated in response to imminent node shutdown."
    cluster.fail_without_container("mlr-worker-0", *reason)
    del cluster.pods["mlr-worker-0"]["status"]["containerStatuses"]
    cluster.settle()
    cluster.pass_time(30)
    assert cluster.created.count("mlr-worker-0") == 2
    assert cluster.status.restarts == 0


def test_a_node_that_refuses_every_pod_is_not_stormed() -> None:
    cluster = Cluster(job_manifest())
    cluster.place("node-a")
    cluster.settle()
    for _ in range(100):
        if "mlr-worker-0" in cluster.pods:
            refusal = "UnexpectedAdmissionError", "Allocate failed: no GPU is left"
            cluster.fail_without_container("mlr-worker-0", *refusal)
        cluster.pass_time(1)
    assert cluster.created.count("mlr-worker-0") <= 5
    assert cluster.reason(RUNNING) == "PodRefused"
    assert "Allocate failed: no GPU is left" in cluster.condition(RUNNING).message
    assert cluster.event_reasons.count("PodRefused") == 1


def test_a_pod_of_unknown_phase_is_neither_done_nor_replaced() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.pods["mlr-worker-0"]["status"]["phase"] = "Unknown"
    cluster.pass_time(3600)
    assert cluster.created.count("mlr-worker-0") == 1
    assert cluster.status.restarts == 0
    cluster.pods["mlr-worker-0"]["status"] = {}
    cluster.settle()
    assert cluster.created.count("mlr-worker-0") == 1


def test_a_container_whose_end_nobody_saw_is_lost_and_not_counted() -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 0})).run()
    cluster.exit("mlr-worker-0", 137, reason="ContainerStatusUnknown")
    cluster.pass_time(30)
    assert cluster.status.restarts == 0
    assert cluster.created.count("mlr-worker-0") == 2


def test_a_silent_node_alone_replaces_nothing() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.lose_node("node-b")
    cluster.set_condition("mlr-worker-1", "Ready", "False")
    cluster.settle()
    assert cluster.created.count("mlr-worker-1") == 1
    assert cluster.reason(RUNNING) == "WorkersRestarting"
    assert "node-b, which does not answer" in cluster.condition(RUNNING).message
    cluster.nodes["node-b"] = True
    cluster.set_condition("mlr-worker-1", "Ready", "True")
    cluster.settle()
    assert cluster.status.state == "Running"


def test_a_pod_that_stays_terminating_on_a_silent_node_is_replaced_under_another_name() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.lose_node("node-b")
    cluster.delete("mlr-worker-1")
    cluster.place("node-a", "node-c")
    cluster.nodes["node-c"] = True
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0", "mlr-worker-1", "mlr-worker-1-1"}
    assert cluster.pods["mlr-worker-1-1"]["spec"]["hostname"] == "mlr-worker-1"
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is None, "its peer goes on"
    cluster.lose_node("node-c")
    cluster.start("mlr-worker-1-1")
    cluster.delete("mlr-worker-1-1")
    cluster.settle()
    assert "mlr-worker-1-2" in cluster.pods


def test_a_pod_that_is_stuck_terminating_does_not_block_its_job_for_ever() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.delete("mlr-worker-0")
    cluster.pass_time(120)
    assert cluster.created.count("mlr-worker-0-1") == 0
    cluster.pass_time(300)
    assert "mlr-worker-0-1" in cluster.pods
