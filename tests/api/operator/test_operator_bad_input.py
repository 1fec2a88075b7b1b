"""What is wrong ends in a condition that says what to change, and creates nothing."""

import json

import pytest
from operator_runs import Cluster, OperatorProcess, Raw, job

from cluster.stub_nodes import StubNodes

pytestmark = pytest.mark.usefixtures("operator", "nodes")


QUOTA_STATUS = json.dumps({"status": {"hard": {"pods": "1"}, "used": {"pods": "0"}}})
"""What a controller writes where one runs."""


def template(name: str = "worker", pod: Raw | None = None, **container: object) -> Raw:
    return {"spec": {**(pod or {}), "containers": [{"name": name, "image": "x", **container}]}}


@pytest.mark.parametrize(
    ("wrong", "path"),
    [
        (template(comand=["train"]), "spec.workers.template.spec.containers[0]"),
        (template(ports=[{"containerPort": "http"}]), "containers[0].ports[0]"),
        (template(resources={"requests": {"cpu": "many"}}), "resources.requests"),
        (template("main"), "spec.workers.template"),
        (template(pod={"restartPolicy": "Always"}), "restartPolicy"),
    ],
)
def test_a_template_that_is_no_pod_is_refused_with_its_path(
    here: Cluster, wrong: Raw, path: str
) -> None:
    here.apply(job(template=wrong))
    refused = here.wait_condition("mlr", "Valid", status="False")
    assert path in refused["message"]
    assert here.conditions("mlr")["Admitted"]["status"] == "False"
    assert not here.names("hg,pods,services")


def test_what_only_the_api_server_can_tell_is_told_before_anything_is_made(here: Cluster) -> None:
    who = {"name": "WHO", "valueFrom": {"fieldRef": {"fieldPath": "metadata.nickname"}}}
    here.apply(job(template=template(env=[who])))
    refused = here.wait_condition("mlr", "Valid", status="False", reason="InvalidTemplate")
    assert "metadata.nickname" in refused["message"]
    assert here.job("mlr")["status"]["state"] == "Invalid"
    here.apply(job("good"))
    here.wait_condition("good", "Running")
    assert not {name for name in here.names("hg,pods,services") if name.startswith("mlr")}
    assert len(here.objects("hg")[0]["spec"]["members"]) == 1


def test_what_the_api_server_refused_is_taken_when_it_would_not_any_more(here: Cluster) -> None:
    pod = template(pod={"serviceAccountName": "trainer"})
    here.apply(job(template=pod))
    refused = here.wait_condition("mlr", "Valid", status="False", reason="InvalidTemplate")
    assert "trainer" in refused["message"]
    here.kubectl("create", "serviceaccount", "trainer")
    here.wait_condition("mlr", "Running")


def test_a_corrected_template_is_taken(here: Cluster) -> None:
    here.apply(job(template=template(comand=["train"])))
    here.wait_condition("mlr", "Valid", status="False")
    here.kubectl("delete", "hj", "mlr")
    here.apply(job(template=template(command=["train"])))
    here.wait_condition("mlr", "Running")


def test_a_priority_class_that_does_not_exist_is_named(here: Cluster) -> None:
    here.apply(job(priorityClassName="no-such-class"))
    refused = here.wait_condition("mlr", "Valid", status="False")
    assert refused["reason"] == "PriorityClassNotFound"
    assert "no-such-class" in refused["message"]
    assert not here.names("hg,pods,services")


def test_a_quota_is_said_once_and_the_job_goes_on_when_it_is_lifted(
    here: Cluster, operator: OperatorProcess
) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "small"},
        "spec": {"hard": {"pods": "1"}},
    }
    here.apply(quota)
    here.kubectl("patch", "quota/small", "--subresource=status", "--patch", QUOTA_STATUS)
    here.apply(job(workers=1))
    refused = here.wait_condition("mlr", "Running", status="False", reason="QuotaExceeded")
    assert "small" in refused["message"]

    def told() -> list[int]:
        events = here.events("mlr")
        return [one["count"] for one in events if one["reason"] == "QuotaExceeded"]

    here.wait("it is told", told)
    here.wait("it is tried again", lambda: operator.log.read_text().count("exceeded quota") >= 4)
    assert told() == [1]
    here.kubectl("delete", "resourcequota", "small")
    here.wait_condition("mlr", "Running")


def test_a_name_that_somebody_else_has_is_said(here: Cluster) -> None:
    foreign = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "mlr"},
        "spec": {"ports": [{"port": 80}]},
    }
    here.apply(foreign)
    here.apply(job(workers=1))
    refused = here.wait_condition("mlr", "Running", status="False", reason="NameConflict")
    assert "mlr" in refused["message"]
    assert here.objects("services")[0]["spec"]["ports"][0]["port"] == 80, "it is left alone"


def test_one_bad_job_does_not_hold_up_its_neighbours(here: Cluster) -> None:
    here.apply(job("bad", template=template(comand=["train"])), job("good"))
    here.wait_condition("bad", "Valid", status="False")
    here.wait_condition("good", "Running")


def test_an_image_that_cannot_be_pulled_is_said(here: Cluster, nodes: StubNodes) -> None:
    def refuse(pod: dict) -> dict | None:
        if pod["metadata"]["namespace"] != here.namespace:
            return None
        waiting = {"waiting": {"reason": "ErrImageNeverPull", "message": "no image train"}}
        return {
            "containerStatuses": [
                {
                    "name": one["name"],
                    "image": one["image"],
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": waiting,
                }
                for one in pod["spec"]["containers"]
            ]
        }

    nodes.refusals = refuse
    here.apply(job(workers=1))
    said = here.wait_condition("mlr", "Running", status="False", reason="ImageMissing")
    assert "train" in said["message"]


def test_whatever_a_user_may_change_later_is_looked_at(here: Cluster) -> None:
    here.apply(job(workers=1))
    here.wait_condition("mlr", "Running")
    here.patch("hj/mlr", {"spec": {"activeDeadlineSeconds": 1}})
    assert here.wait_condition("mlr", "Failed")["reason"] == "DeadlineExceeded"
    generation = json.loads(here.kubectl("get", "hj", "mlr", "-ojson"))["metadata"]["generation"]
    assert here.job("mlr")["status"]["observedGeneration"] == generation
