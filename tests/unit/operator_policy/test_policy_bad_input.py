"""What the schema lets through and cannot be carried out: said in a condition, and not begun."""

from typing import Any

import pytest
from policy_cluster import CLAIM, NARROW, Cluster, job_manifest

from harmony_api.conditions import ConditionType
from harmony_operator.actions import Step, Try
from harmony_operator.observed import ApiProblem, VolumeClaim

VALID = ConditionType.VALID


def template(**container: Any) -> dict[str, Any]:
    return {"spec": {"containers": [{"name": "worker", "image": "training:1"} | container]}}


def mistaken(spec: dict[str, Any]) -> dict[str, Any]:
    manifest = job_manifest()
    manifest["spec"] |= spec
    return manifest


MISTAKES: list[Any] = [
    pytest.param(
        {"workers": {"template": template(volumeMounts=[{"name": "data"}])}},
        "InvalidTemplate", "spec.workers.template.spec.containers[0].volumeMounts[0].mountPath",
        id="a mount without a path",
    ),
    pytest.param(
        {"workers": {"template": template(imagePullPolicy="Sometimes")}},
        "InvalidTemplate", "spec.workers.template.spec.containers[0].imagePullPolicy",
        id="a pull policy that does not exist",
    ),
    pytest.param(
        {"workers": {"template": template(ports=[{"containerPort": "http"}])}},
        "InvalidTemplate", "spec.workers.template.spec.containers[0].ports[0].containerPort",
        id="a port that is no number",
    ),
    pytest.param(
        {"workers": {"template": {"spec": {"containers": [{"name": "main", "image": "x"}]}}}},
        "InvalidTemplate", "needs one container named 'worker'",
        id="no container named worker",
    ),
    pytest.param(
        {"parameterServers": {"template": {"spec": {"containers": [{"name": "server"}]}}}},
        "InvalidTemplate", "spec.parameterServers.template.spec.containers[0].image",
        id="a server without an image",
    ),
    pytest.param(
        {"workers": {"template": {"spec": {"containers": [{"name": "worker", "imagee": "x"}]}}}},
        "InvalidTemplate", "spec.workers.template.spec.containers[0]",
        id="a field that no container has",
    ),
    pytest.param(
        {"workers": {"replicas": 0, "template": template()}},
        "InvalidSpec", "spec.workers.replicas",
        id="no workers",
    ),
    pytest.param(
        {"sharing": {"deviceMemory": {"footprint": "6GB"}}},
        "InvalidSpec", "did you mean 'Gi'",
        id="a unit that Kubernetes does not know",
    ),
    pytest.param(
        {"failurePolicy": {"rules": [{"action": "Fail", "onExitCodes": {
            "containerName": "main", "operator": "In", "values": [3]}}]}},
        "InvalidSpec", "spec.failurePolicy.rules[0].onExitCodes.containerName: 'main'",
        id="a rule about a container that is not looked at",
    ),
    pytest.param(
        {"checkpoint": {"volumeClaimTemplate": {"spec": {"accessModes": "ReadWriteOnce"}}}},
        "InvalidSpec", "spec.checkpoint.volumeClaimTemplate.spec.accessModes",
        id="access modes that are no list",
    ),
    pytest.param(
        {"checkpoint": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"]}}}},
        "InvalidSpec", "spec.checkpoint.volumeClaimTemplate.spec.resources.requests.storage",
        id="a volume claim without a size",
    ),
    pytest.param(
        {"priorityClassName": "urgent"},
        "PriorityClassNotFound", "there is no PriorityClass 'urgent'",
        id="a priority class that does not exist",
    ),
    pytest.param(
        {"parameterServers": {"replicas": 2}, "checkpoint": {"volumeClaimName": "ckpt"}},
        "UnsupportedCheckpoint", "'ckpt', which is ReadWriteOnce; use a ReadWriteMany claim",
        id="several servers and a claim that only one node can write",
    ),
    pytest.param(
        {"checkpoint": {"volumeClaimName": "kcpt"}},
        "VolumeClaimNotFound", "there is no PersistentVolumeClaim 'kcpt'",
        id="a volume claim that does not exist",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "reason", "message"), MISTAKES)
def test_a_mistake_is_told_with_its_field_and_creates_nothing(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    cluster = Cluster(mistaken(spec))
    cluster.place("node-a")
    cluster.settle()
    cluster.pass_time(3600)
    assert cluster.condition(VALID).status == "False"
    assert cluster.reason(VALID) == reason
    assert message in cluster.condition(VALID).message
    assert cluster.status.state == "Invalid"
    assert not cluster.pods
    assert not cluster.services
    assert cluster.event_reasons == [reason]


@pytest.mark.parametrize(("spec", "reason", "message"), MISTAKES)
def test_a_job_whose_mistake_is_corrected_begins(
    spec: dict[str, Any], reason: str, message: str
) -> None:
    cluster = Cluster(mistaken(spec))
    cluster.settle()
    cluster.manifest["spec"] = {}
    cluster.edit(**job_manifest()["spec"])
    cluster.run()
    assert cluster.status.state == "Running"


def test_a_priority_class_that_is_removed_later_is_nothing_to_a_job_that_runs() -> None:
    cluster = Cluster(job_manifest(priorityClassName="urgent"), priorities={"urgent": 10}).run()
    cluster.priorities.clear()
    cluster.settle()
    assert cluster.status.state == "Running"


def test_a_priority_class_that_is_created_later_lets_the_job_begin() -> None:
    cluster = Cluster(job_manifest(priorityClassName="urgent"))
    cluster.settle()
    assert cluster.status.state == "Invalid"
    cluster.priorities["urgent"] = 10
    cluster.run()
    assert cluster.status.state == "Running"


def test_a_mistake_made_while_the_job_runs_stops_it_at_an_iteration() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    rule = {
        "action": "Fail",
        "onExitCodes": {"containerName": "x", "operator": "In", "values": [3]},
    }
    cluster.edit(failurePolicy={"rules": [rule]})
    cluster.settle()
    assert cluster.status.state == "Invalid"
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is not None
    cluster.stop_obediently()
    cluster.edit(failurePolicy={})
    cluster.settle()
    cluster.start()
    cluster.settle()
    assert cluster.status.state == "Running"
    assert cluster.created.count("mlr-server-0") == 1
    assert cluster.status.restarts == 0


def test_a_volume_claim_that_is_created_later_lets_the_job_begin() -> None:
    cluster = Cluster(job_manifest(checkpoint={"volumeClaimName": "ckpt"}), volume_claims={})
    cluster.settle()
    assert cluster.status.state == "Invalid"
    cluster.volume_claims[CLAIM] = NARROW
    cluster.run()
    assert cluster.status.state == "Running"
    cluster.volume_claims.clear()
    cluster.settle()
    assert cluster.status.state == "Running"


def test_several_servers_may_share_a_claim_that_all_nodes_can_write() -> None:
    spec = {"parameterServers": {"replicas": 2}, "checkpoint": {"volumeClaimName": "ckpt"}}
    cluster = Cluster(mistaken(spec))
    cluster.volume_claims[CLAIM] = VolumeClaim(access_modes=frozenset({"ReadWriteMany"}))
    cluster.run()
    assert cluster.status.state == "Running"


def api_server_says(message: str, status: int) -> Any:
    def refuse(step: Step) -> ApiProblem | None:
        if not isinstance(step, Try) or step.manifest["metadata"]["name"] != "mlr-worker-0":
            return None
        return ApiProblem(
            status=status, reason="", message=message, what="create it", rehearsed=True
        )

    return refuse


def test_what_only_the_api_server_can_refuse_is_invalid_and_creates_nothing() -> None:
    cluster = Cluster(job_manifest())
    cluster.refuse = api_server_says("policy: no latest tags", 403)
    cluster.settle()
    assert cluster.reason(VALID) == "InvalidTemplate"
    assert cluster.condition(VALID).message == "create it: policy: no latest tags"
    cluster.place("node-a")
    cluster.settle()
    assert not cluster.created
    assert cluster.event_reasons == ["InvalidTemplate"]
    cluster.refuse = lambda _: None
    cluster.run()
    assert cluster.status.state == "Running"


def test_a_quota_makes_no_job_invalid() -> None:
    cluster = Cluster(job_manifest())
    cluster.refuse = api_server_says("exceeded quota: small", 403)
    cluster.settle()
    assert cluster.condition(VALID).status == "True"


def test_a_job_that_runs_is_not_judged_again() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.refuse = api_server_says("policy: no latest tags", 403)
    cluster.edit(activeDeadlineSeconds=10**6)
    cluster.settle()
    assert cluster.status.state == "Running"
