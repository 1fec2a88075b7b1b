"""What others or an earlier job of the same name left is neither used nor touched."""

from dataclasses import replace

import pytest
from policy_cluster import KEY, NARROW, Cluster, job_manifest

from harmony_api.conditions import ConditionType
from harmony_operator.actions import Create, Try
from harmony_operator.observed import ApiProblem, ObjectKey, ObservedService

RUNNING = ConditionType.RUNNING


def test_pods_of_an_earlier_job_of_the_same_name_are_neither_counted_nor_deleted() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.manifest["metadata"]["uid"] = "another-uid"
    cluster.manifest["status"] = {}
    cluster.exit("mlr-worker-0")
    cluster.place("node-a")
    group = cluster.group
    assert group is not None
    member = group.spec.members[0].model_copy(update={"job_uid": "another-uid"})
    spec = group.spec.model_copy(update={"members": (member,)})
    cluster.group = type(group)(**{**vars(group), "spec": spec})
    before = set(cluster.pods)
    cluster.settle()
    assert set(cluster.pods) == before
    assert cluster.status.state == "Starting"
    assert cluster.reason(RUNNING) == "NameConflict"
    cluster.pods.clear()
    cluster.services.clear()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0"}


@pytest.mark.parametrize("left", ["PersistentVolumeClaim", "Service"])
def test_what_an_earlier_job_of_the_same_name_left_is_not_taken_for_the_jobs_own(
    left: str,
) -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"checkpoint": {"volumeClaimTemplate": {"spec": claim}}}
    cluster = Cluster(job_manifest(**spec))
    if left == "Service":
        name = KEY.name
        cluster.services[KEY] = ObservedService(key=KEY, owner_uid="earlier")
    else:
        name = "mlr-server-0"
        cluster.volume_claims[ObjectKey("team", name)] = replace(NARROW, owner_uid="earlier")
    cluster.place("node-a")
    cluster.settle()
    assert not cluster.pods
    assert cluster.reason(RUNNING) == "NameConflict"
    assert f"an earlier job of this name left is gone: {left} {name}" in (
        cluster.condition(RUNNING).message
    )
    cluster.services.clear()
    cluster.volume_claims.clear()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0"}


def test_a_job_that_was_changed_while_it_was_suspended_goes_on_with_its_own_claim() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"checkpoint": {"volumeClaimTemplate": {"spec": claim}}}
    cluster = Cluster(job_manifest(**spec)).run()
    cluster.edit(suspend=True)
    for _ in range(3):
        cluster.settle()
        cluster.stop_obediently()
        cluster.reap()
    assert not cluster.pods
    cluster.edit(suspend=False)
    tried = [step for step in cluster.look().steps if isinstance(step, Try)]
    assert tried
    assert all(step.manifest["kind"] == "Pod" for step in tried)
    assert cluster.run().status.state == "Running"


def test_a_users_claim_of_a_servers_name_is_not_written_to() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"checkpoint": {"volumeClaimTemplate": {"spec": claim}}}
    cluster = Cluster(job_manifest(**spec))
    theirs = ObjectKey("team", "mlr-server-0")
    cluster.volume_claims[theirs] = NARROW
    cluster.refuse = lambda step: (
        ApiProblem(status=409, reason="AlreadyExists", message="it exists", what="create it")
        if isinstance(step, Create) and step.manifest["kind"] == "PersistentVolumeClaim"
        else None
    )
    cluster.place("node-a")
    cluster.look()
    assert cluster.reason(RUNNING) == "NameConflict"
    assert not cluster.pods
