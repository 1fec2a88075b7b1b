"""Mistakes that other operators became known for, each as a test."""

from policy_cluster import SETTINGS, Cluster, foreign_servers, job_manifest

from harmony_api.conditions import ConditionType
from harmony_operator.actions import Create, Delete, Step
from harmony_operator.observed import ApiProblem
from harmony_operator.parsing import parse_job, parse_pod
from harmony_operator.reconcile import reconcile

RUNNING = ConditionType.RUNNING


def test_servers_are_not_left_running_after_success() -> None:
    cluster = Cluster(job_manifest(servers=2)).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    cluster.reap()
    assert list(cluster.pods) == ["mlr-worker-0"]
    assert cluster.status.replicas.servers.desired == 0


def test_servers_are_not_left_running_after_failure() -> None:
    cluster = Cluster(job_manifest(workers=2, failurePolicy={"backoffLimit": 0})).run()
    cluster.exit("mlr-worker-0", 1)
    cluster.settle()
    cluster.reap()
    assert list(cluster.pods) == ["mlr-worker-0"], "only the failed one stays, for its log"


def test_a_sidecars_exit_code_never_counts() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.exit("mlr-worker-0")
    status = cluster.pods["mlr-worker-0"]["status"]
    status["phase"] = "Failed"
    status["initContainerStatuses"] = [
        {"name": "harmony-sidecar", "state": {"terminated": {"exitCode": 137}}}
    ]
    cluster.settle()
    assert cluster.status.state == "Succeeded"


def test_a_job_completes_although_a_sidecar_of_its_worker_still_runs() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.exit("mlr-worker-0")
    cluster.pods["mlr-worker-0"]["status"]["phase"] = "Running"
    cluster.settle()
    assert cluster.status.state == "Succeeded"


def test_a_finished_job_stays_finished_when_its_pods_are_deleted() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    for name in ("mlr-worker-0", "mlr-worker-1"):
        cluster.exit(name)
    cluster.settle()
    status = cluster.status
    cluster.pods.clear()
    cluster.services.clear()
    created = list(cluster.created)
    cluster.settle()
    assert cluster.created == created
    assert cluster.status.conditions == status.conditions


def test_a_failed_job_is_not_tried_again_and_keeps_its_restarts() -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 1})).run()
    cluster.exit("mlr-worker-0", 1)
    cluster.settle()
    cluster.pass_time(10)
    cluster.start()
    cluster.settle()
    cluster.exit("mlr-worker-0", 1)
    cluster.settle()
    assert (cluster.status.state, cluster.status.restarts) == ("Failed", 1)
    cluster.pods.clear()
    cluster.pass_time(3600)
    assert not cluster.pods
    assert (cluster.status.state, cluster.status.restarts) == ("Failed", 1)


def test_a_completed_worker_is_not_restarted_when_its_pod_vanishes() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    del cluster.pods["mlr-worker-0"]
    cluster.settle()
    assert "mlr-worker-0" not in cluster.pods
    assert cluster.status.succeeded_workers == (0,)
    cluster.exit("mlr-worker-1")
    cluster.settle()
    assert cluster.status.state == "Succeeded"


def test_suspension_leaves_no_child_that_works() -> None:
    cluster = Cluster(job_manifest(workers=2, checkpoint={"volumeClaimName": "ckpt"})).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.stop_obediently()
    cluster.settle()
    cluster.reap()
    cluster.settle()
    assert not cluster.pods
    assert cluster.status.state == "Suspended"


def test_suspension_of_a_job_that_has_not_started_its_pods_yet_leaves_nothing() -> None:
    cluster = Cluster(job_manifest(workers=2, checkpoint={"volumeClaimName": "ckpt"}))
    cluster.place("node-a", "node-b")
    cluster.settle()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.reap()
    cluster.settle()
    assert not cluster.pods
    assert cluster.status.state == "Suspended"


def test_disruptions_are_not_counted() -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 0})).run()
    cluster.set_condition("mlr-worker-0", "DisruptionTarget", "True")
    cluster.exit("mlr-worker-0", 143)
    cluster.settle()
    assert cluster.status.restarts == 0
    assert cluster.created.count("mlr-worker-0") == 2
    assert cluster.status.state != "Failed"


def test_a_pod_that_is_being_deleted_decides_nothing() -> None:
    for code in (0, 1, 137, 143):
        cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 0})).run()
        cluster.delete("mlr-worker-0")
        cluster.exit("mlr-worker-0", code)
        cluster.settle()
        assert cluster.status.state not in ("Succeeded", "Failed"), code
        cluster.reap()
        cluster.settle()
        assert cluster.created.count("mlr-worker-0") == 2


def test_conditions_are_set_when_the_creation_of_children_fails() -> None:
    cluster = Cluster(job_manifest())
    cluster.place("node-a")
    message = 'pods "mlr-server-0" is forbidden: exceeded quota: small, requested: pods=1'

    def refuse(step: Step) -> ApiProblem | None:
        if isinstance(step, Create) and step.manifest["kind"] == "Pod":
            return ApiProblem(
                status=403, reason="Forbidden", message=message, what="create Pod team/mlr-server-0"
            )
        return None

    cluster.refuse = refuse
    for _ in range(5):
        cluster.look()
    assert not cluster.pods
    assert cluster.status.conditions
    assert cluster.reason(RUNNING) == "QuotaExceeded"
    assert message in cluster.condition(RUNNING).message
    assert cluster.event_reasons.count("QuotaExceeded") == 1
    cluster.refuse = lambda step: None
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0"}
    assert cluster.reason(RUNNING) == "ServersStarting"


def test_a_status_that_an_older_operator_wrote_is_no_error() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.manifest["status"] = {"conditions": cluster.manifest["status"]["conditions"]}
    cluster.settle()
    assert cluster.status.state == "Running"
    cluster.manifest["status"] = {"phase": "Running", "restarts": "many"}
    cluster.settle()
    assert cluster.status.state == "Running"


def test_pods_and_jobs_that_lack_every_optional_field_are_no_error() -> None:
    cluster = Cluster(job_manifest())
    bare = {
        "metadata": {
            "name": "mlr-worker-0",
            "namespace": "team",
            "uid": "bare",
            "labels": {
                "harmony.dev/job-name": "mlr",
                "harmony.dev/job-uid": "job-uid",
                "harmony.dev/role": "worker",
            },
        }
    }
    assert parse_pod(bare) is not None
    cluster.pods["mlr-worker-0"] = bare | {"spec": {}, "status": {}}
    cluster.look()
    job = parse_job({"metadata": {"name": "mlr", "namespace": "team"}})
    assert job.job is None
    assert job.errors


def test_success_is_announced_only_with_the_status_that_says_so() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.exit("mlr-worker-0")
    announced = False
    for _ in range(4):
        actions = cluster.look()
        now = any(event.reason == "WorkersSucceeded" for event in actions.events)
        if now:
            assert not announced
            assert actions.status is not None
            assert actions.status.state == "Succeeded"
            assert not actions.steps, "nothing is cleaned up before the success is written"
        announced |= now
    assert announced


def test_a_settled_job_writes_nothing_and_tells_nothing() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    events, writes = len(cluster.events), cluster.status_writes
    for _ in range(100):
        cluster.now += 1
        actions = cluster.look()
        assert not actions.steps
    assert (len(cluster.events), cluster.status_writes) == (events, writes)


def test_an_image_that_cannot_be_pulled_is_told_once_however_often_the_kubelet_tries() -> None:
    cluster = Cluster(job_manifest())
    cluster.place("node-a")
    cluster.settle()
    cluster.start("mlr-server-0")
    writes = 0
    for attempt in range(20):
        reason = ("ErrImagePull", "ImagePullBackOff")[attempt % 2]
        cluster.wait_in_container("mlr-worker-0", reason, f'image "training:1": try {attempt}')
        cluster.settle()
        writes = writes or cluster.status_writes
    assert cluster.status_writes == writes
    assert cluster.event_reasons.count("ImageMissing") == 1
    assert cluster.condition(RUNNING).message.startswith("worker 0: ErrImagePull: image")


def test_a_job_that_is_being_deleted_is_left_alone() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.manifest["metadata"]["deletionTimestamp"] = "2027-01-15T08:00:00Z"
    cluster.exit("mlr-worker-0", 1)
    actions = reconcile(cluster.view(), SETTINGS)
    assert not actions.steps
    assert actions.status is None


def test_of_two_pods_for_one_worker_the_second_goes() -> None:
    cluster = Cluster(job_manifest()).run()
    twin = cluster.pods["mlr-worker-0"]
    cluster.pods["mlr-worker-0-1"] = {
        **twin,
        "metadata": {
            **twin["metadata"],
            "name": "mlr-worker-0-1",
            "uid": "twin",
            "creationTimestamp": "2027-01-15T08:00:09Z",
        },
    }
    steps = reconcile(cluster.view(), SETTINGS).steps
    assert [step.uid for step in steps if isinstance(step, Delete)] == ["twin"]


def test_servers_of_other_programs_take_their_workers_with_them() -> None:
    cluster = Cluster(job_manifest(workers=2, parameterServers=foreign_servers(2))).run()
    cluster.delete("mlr-server-0")
    cluster.settle()
    assert all(cluster.pod(name).deleting_since_seconds for name in cluster.pods)
    assert cluster.reason(RUNNING) == "ServersRestarting"
    cluster.reap()
    cluster.settle()
    assert all(cluster.created.count(name) == 2 for name in cluster.pods)
    assert len(cluster.pods) == 4
    assert cluster.status.restarts == 0
