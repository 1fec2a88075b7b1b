"""A job's life, from `kubectl apply` to its end, on a real API server."""

import json
from collections.abc import Iterator

import pytest
from operator_runs import Cluster, OperatorProcess, job

from cluster.stub_nodes import StubNodes

pytestmark = pytest.mark.usefixtures("operator")


def run_to(here: Cluster, name: str = "mlr") -> None:
    here.wait_condition(name, "Running")


def finish(here: Cluster, nodes: StubNodes, name: str = "mlr", workers: int = 2) -> None:
    for index in range(workers):
        nodes.end(here.namespace, f"{name}-worker-{index}")
    here.wait_condition(name, "Succeeded")


def test_a_job_runs_succeeds_and_leaves_only_its_workers(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    assert here.names("pods") == {"mlr-server-0", "mlr-worker-0", "mlr-worker-1"}
    assert here.names("services") == {"mlr"}
    assert here.conditions("mlr")["Admitted"]["reason"] == "Placed"
    group = here.job("mlr")["status"]["group"]["name"]
    plans = [
        json.loads(pod["metadata"]["annotations"]["harmony.dev/node-plan"])
        for pod in here.objects("pods")
        if pod["metadata"]["labels"]["harmony.dev/role"] == "worker"
    ]
    assert {plan["group"] for plan in plans} == {
        one["metadata"]["uid"] for one in here.objects("hg") if one["metadata"]["name"] == group
    }

    finish(here, nodes)
    here.wait("the servers are gone", lambda: "mlr-server-0" not in here.names("pods"))
    here.wait("the group is gone", lambda: not here.names("hg"))
    assert here.names("pods") == {"mlr-worker-0", "mlr-worker-1"}
    status = here.job("mlr")["status"]
    assert status["restarts"] == 0
    assert status["replicas"]["workers"]["succeeded"] == 2
    assert status["completionTime"] >= status["startTime"]
    assert "mlr" in here.kubectl("get", "hj")
    reasons = [event["reason"] for event in here.events("mlr")]
    assert len(reasons) == len(set(reasons)), "each change is told once"
    assert "WorkersSucceeded" in reasons


def test_nothing_is_made_again_for_a_finished_job(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    finish(here, nodes)
    here.wait("the servers are gone", lambda: "mlr-server-0" not in here.names("pods"))
    here.kubectl("delete", "pods", "--all")
    here.wait("the pods are gone", lambda: not here.names("pods"))
    here.apply(job("next", workers=1))
    run_to(here, "next")
    assert not {name for name in here.names("pods") if name.startswith("mlr")}
    assert here.conditions("mlr")["Succeeded"]["status"] == "True"


def test_a_failed_worker_is_replaced_and_counted_once(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    nodes.end(here.namespace, "mlr-worker-1", exit_code=1)
    here.wait("the restart is counted", lambda: here.job("mlr")["status"]["restarts"] == 1)
    here.wait("a second worker-1 runs", lambda: nodes.starts[here.namespace, "mlr-worker-1"] == 2)
    run_to(here)
    finish(here, nodes)
    assert here.job("mlr")["status"]["restarts"] == 1
    assert nodes.starts[here.namespace, "mlr-worker-0"] == 1


def test_a_job_that_keeps_failing_is_given_up(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job(workers=1, failurePolicy={"backoffLimit": 0}))
    run_to(here)
    nodes.end(here.namespace, "mlr-worker-0", exit_code=3)
    failed = here.wait_condition("mlr", "Failed")
    assert failed["reason"] == "BackoffLimitExceeded"
    here.wait(
        "nothing of it runs",
        lambda: (
            not [
                pod
                for pod in here.objects("pods")
                if pod["status"]["phase"] in ("Pending", "Running")
            ]
        ),
    )
    here.wait("its slots are free", lambda: not here.names("hg"))


def test_suspend_frees_everything_and_resume_goes_on(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    here.patch("harmonyjob/mlr", {"spec": {"suspend": True}})
    here.wait_condition("mlr", "Suspended")
    here.wait("its slots are free", lambda: not here.names("hg"))
    assert not [name for name in here.names("pods") if "worker" in name]
    assert here.job("mlr")["status"]["restarts"] == 0
    here.patch("harmonyjob/mlr", {"spec": {"suspend": False}})
    run_to(here)
    assert nodes.starts[here.namespace, "mlr-worker-0"] == 2
    finish(here, nodes)
    assert here.job("mlr")["status"]["restarts"] == 0


def test_a_deleted_job_takes_everything_with_it(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    here.kubectl("delete", "harmonyjob", "mlr", "--timeout=30s")
    here.wait("all is gone", lambda: not here.names("hj,hg,pods,services"))


def test_a_job_of_the_same_name_can_follow_at_once(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job())
    run_to(here)
    first = here.job("mlr")["metadata"]["uid"]
    here.kubectl("delete", "harmonyjob", "mlr", "--timeout=30s")
    here.apply(job(workers=1))
    run_to(here)
    assert here.job("mlr")["metadata"]["uid"] != first
    finish(here, nodes, workers=1)


def test_a_finished_job_is_removed_after_its_time_to_live(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job(workers=1, ttlSecondsAfterFinished=1))
    run_to(here)
    finish_or_gone = nodes.end
    finish_or_gone(here.namespace, "mlr-worker-0")
    here.wait("the job and its pods are gone", lambda: not here.names("hj,pods,services"))


def test_a_job_fails_at_its_deadline(here: Cluster, nodes: StubNodes) -> None:
    here.apply(job(workers=1, activeDeadlineSeconds=3))
    assert here.wait_condition("mlr", "Failed")["reason"] == "DeadlineExceeded"
    here.wait(
        "nothing of it runs",
        lambda: not [pod for pod in here.objects("pods") if pod["status"]["phase"] == "Running"],
    )


def test_no_object_has_a_finalizer_or_an_annotation_of_the_framework(
    here: Cluster, nodes: StubNodes
) -> None:
    here.apply(job())
    run_to(here)
    for one in here.objects("hj,hg,pods,services"):
        assert "finalizers" not in one["metadata"]
        assert not [
            name for name in one["metadata"].get("annotations") or () if name.startswith("kopf.")
        ]


def test_waiting_for_a_free_slot_is_said_and_ends_by_itself(
    here: Cluster, nodes: StubNodes, operator: OperatorProcess
) -> None:
    exclusive = {"sharing": {"policy": "Exclusive"}}
    here.apply(job("first", **exclusive))
    run_to(here, "first")
    here.apply(job("second", **exclusive))
    waiting = here.wait_condition("second", "Admitted", status="False", reason="WaitingForSlot")
    assert waiting["message"]
    assert not [name for name in here.names("pods") if name.startswith("second")]
    finish(here, nodes, "first")
    run_to(here, "second")
    finish(here, nodes, "second")


@pytest.fixture
def priority_classes(here: Cluster) -> Iterator[tuple[str, str]]:
    """The names of a lower and a higher class."""
    low, high = f"{here.namespace}-low", f"{here.namespace}-high"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    here.apply(
        {**kind, "metadata": {"name": low}, "value": 10},
        {**kind, "metadata": {"name": high}, "value": 20},
    )
    yield low, high
    here.kubectl("delete", "priorityclass", low, high)


def test_a_job_of_higher_priority_takes_the_slots_and_the_other_goes_on_afterwards(
    here: Cluster, nodes: StubNodes, priority_classes: tuple[str, str]
) -> None:
    low, high = priority_classes
    exclusive = {"sharing": {"policy": "Exclusive"}}
    here.apply(job("low", priorityClassName=low, **exclusive))
    run_to(here, "low")
    here.apply(job("high", priorityClassName=high, **exclusive))
    run_to(here, "high")
    preempted = here.wait_condition("low", "Suspended", reason="Preempted")
    assert "high" in preempted["message"]
    assert here.conditions("low")["Admitted"]["reason"] == "Preempted"
    assert here.job("low")["status"]["state"] == "Preempted"
    assert not [name for name in here.names("pods") if name.startswith("low-worker")]
    finish(here, nodes, "high")
    run_to(here, "low")
    assert here.job("low")["status"]["restarts"] == 0
    assert nodes.starts[here.namespace, "low-worker-0"] == 2
    finish(here, nodes, "low")


def test_a_job_with_a_template_of_300_kilobytes_runs(here: Cluster, nodes: StubNodes) -> None:
    container = {"name": "worker", "image": "train", "args": ["x" * 1024] * 300}
    large = job(workers=2, template={"spec": {"containers": [container]}})
    here.kubectl("create", "--filename", "-", input=json.dumps(large))
    run_to(here)
    worker = json.loads(here.kubectl("get", "pod", "mlr-worker-1", "--output=json"))
    main = next(one for one in worker["spec"]["containers"] if one["name"] == "worker")
    assert main["args"] == container["args"]
    finish(here, nodes)
