"""When a job has succeeded, and what is left of it then."""

from policy_cluster import Cluster, job_manifest

from harmony_api.conditions import ConditionType

SUCCEEDED = ConditionType.SUCCEEDED


def test_a_job_succeeds_when_all_its_workers_have() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-worker-1")
    cluster.settle()
    assert cluster.status.state == "Running"
    assert cluster.status.columns is not None
    assert cluster.status.columns.workers == "2/2"
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.reason(SUCCEEDED) == "WorkersSucceeded"
    assert cluster.status.completion_time is not None


def test_a_job_succeeds_with_its_chief_and_the_other_workers_are_removed() -> None:
    cluster = Cluster(job_manifest(workers=3, completion={"success": "ChiefWorker"})).run()
    cluster.exit("mlr-worker-1")
    cluster.settle()
    assert cluster.status.state == "Running"
    cluster.exit("mlr-worker-0")
    cluster.settle()
    cluster.reap()
    assert cluster.reason(SUCCEEDED) == "ChiefSucceeded"
    assert set(cluster.pods) == {"mlr-worker-0", "mlr-worker-1"}


def test_servers_stay_after_success_where_the_spec_says_so() -> None:
    cluster = Cluster(job_manifest(completion={"cleanServers": False})).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    cluster.reap()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0"}


def test_success_outweighs_a_failure_that_comes_with_it() -> None:
    spec = {"completion": {"success": "ChiefWorker"}, "failurePolicy": {"backoffLimit": 0}}
    cluster = Cluster(job_manifest(workers=2, **spec)).run()
    cluster.exit("mlr-worker-1", 1)
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.status.state == "Succeeded"


def test_a_worker_that_was_told_to_stop_and_is_done_instead_has_succeeded() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.status.state == "Succeeded"
