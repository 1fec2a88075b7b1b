"""Deadlines and times to live."""

from policy_cluster import Cluster, job_manifest

from harmony_api.conditions import ConditionType


def test_a_job_that_runs_longer_than_its_deadline_fails_and_its_pods_go() -> None:
    cluster = Cluster(job_manifest(activeDeadlineSeconds=100)).run()
    again = cluster.look().again_after_seconds
    assert again == 100
    cluster.pass_time(99)
    assert cluster.status.state == "Running"
    cluster.pass_time(1)
    assert cluster.reason(ConditionType.FAILED) == "DeadlineExceeded"
    cluster.reap()
    assert not cluster.pods


def test_a_deadline_begins_with_admission() -> None:
    cluster = Cluster(job_manifest(activeDeadlineSeconds=100))
    cluster.pass_time(1000)
    cluster.run()
    assert cluster.status.state == "Running"


def test_a_suspension_resets_the_deadline() -> None:
    cluster = Cluster(job_manifest(activeDeadlineSeconds=100)).run()
    cluster.pass_time(90)
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.stop_obediently()
    cluster.settle()
    assert cluster.status.start_time is None
    cluster.pass_time(1000)
    cluster.edit(suspend=False)
    cluster.settle()
    cluster.start()
    cluster.settle()
    assert cluster.status.state == "Running"
    cluster.pass_time(99)
    assert cluster.status.state == "Running"
    cluster.pass_time(1)
    assert cluster.status.state == "Failed"


def test_a_deadline_may_be_changed_while_the_job_runs() -> None:
    cluster = Cluster(job_manifest(activeDeadlineSeconds=100)).run()
    cluster.edit(activeDeadlineSeconds=1000)
    cluster.pass_time(500)
    assert cluster.status.state == "Running"
    cluster.edit(activeDeadlineSeconds=50)
    cluster.settle()
    assert cluster.status.state == "Failed"


def test_a_finished_job_is_deleted_when_its_time_to_live_is_over() -> None:
    cluster = Cluster(job_manifest(ttlSecondsAfterFinished=60)).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.look().again_after_seconds == 60
    cluster.pass_time(59)
    assert cluster.job_exists
    cluster.pass_time(1)
    assert not cluster.job_exists


def test_a_time_to_live_of_zero_deletes_the_job_only_after_its_end_is_written() -> None:
    cluster = Cluster(job_manifest(ttlSecondsAfterFinished=0)).run()
    cluster.exit("mlr-worker-0")
    assert not cluster.look().steps
    assert cluster.status.state == "Succeeded"
    cluster.settle()
    assert not cluster.job_exists


def test_without_a_time_to_live_a_finished_job_stays() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.look().again_after_seconds is None
    cluster.pass_time(1e8)
    assert cluster.job_exists


def test_a_time_to_live_may_be_set_after_the_end() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    cluster.pass_time(100)
    cluster.edit(ttlSecondsAfterFinished=10)
    cluster.settle()
    assert not cluster.job_exists
