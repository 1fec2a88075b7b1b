"""Progress and profiles: written seldom, and only when they say something new."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from policy_cluster import Cluster, job_manifest

from harmony_api.profile import JobProfile
from harmony_operator.policies.measured_profile import has_moved


def profile(compute: int = 100_000, **more: int) -> JobProfile:
    costs = {"pull_microseconds": 40_000, "push_microseconds": 40_000, "iterations": 20}
    return JobProfile(compute_microseconds=compute, **(costs | more))


def test_progress_is_that_of_the_worker_that_is_behind() -> None:
    cluster = Cluster(job_manifest(workers=2, iterations=1000)).run()
    cluster.observe(0, iteration=51)
    cluster.observe(1, iteration=50)
    cluster.settle()
    assert cluster.status.progress is not None
    assert (cluster.status.progress.iteration, cluster.status.progress.total) == (50, 1000)
    assert cluster.status.columns is not None
    assert cluster.status.columns.progress == "50/1000"


def test_progress_is_written_at_most_once_a_minute() -> None:
    cluster = Cluster(job_manifest()).run()
    writes = cluster.status_writes
    for second in range(300):
        cluster.observe(0, iteration=second)
        cluster.pass_time(1)
    assert 4 <= cluster.status_writes - writes <= 6


def test_a_job_that_stands_still_writes_no_progress() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.observe(0, iteration=7)
    cluster.settle()
    writes = cluster.status_writes
    cluster.pass_time(600)
    assert cluster.status_writes == writes


def test_a_job_that_succeeded_has_done_all_its_iterations() -> None:
    cluster = Cluster(job_manifest(iterations=1000)).run()
    cluster.observe(0, iteration=990)
    cluster.settle()
    cluster.exit("mlr-worker-0")
    cluster.settle()
    assert cluster.status.columns is not None
    assert cluster.status.columns.progress == "1000/1000"


def test_what_an_earlier_pod_of_the_worker_answered_is_not_its_progress() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.observe(0, iteration=500, pod_uid="earlier")
    cluster.settle()
    assert cluster.status.progress is None


def test_a_profile_is_written_when_it_is_measured_and_when_it_moves() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.observe(0, iteration=1, profile=profile())
    cluster.settle()
    assert cluster.status.profiles == (profile(),)
    assert cluster.status.columns is not None
    assert (cluster.status.columns.compute, cluster.status.columns.network) == ("100ms", "80ms")
    writes = cluster.status_writes
    cluster.observe(0, iteration=1, profile=profile(105_000))
    cluster.settle()
    assert cluster.status_writes == writes
    cluster.observe(0, iteration=1, profile=profile(120_000))
    cluster.settle()
    assert cluster.status.profiles == (profile(120_000),)


def test_profiles_of_several_kinds_of_device_are_kept() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.observe(0, iteration=1, profile=profile())
    cluster.settle()
    assert cluster.group is not None
    (slot,) = cluster.group.spec.slots
    faster = slot.model_copy(update={"device_kind": "H200"})
    spec = cluster.group.spec.model_copy(update={"slots": (faster,)})
    cluster.group = replace(cluster.group, spec=spec)
    cluster.settle()
    gpu = profile().model_copy(update={"device_kind": "H200"})
    assert cluster.status.profiles == (gpu, profile())


def test_a_profile_that_rests_on_too_few_iterations_is_not_written() -> None:
    cluster = Cluster(job_manifest()).run()
    few = profile().model_copy(update={"iterations": 3})
    cluster.observe(0, iteration=3, profile=few)
    cluster.settle()
    assert cluster.status.profiles == ()


def test_a_tiny_phase_that_doubles_is_no_news() -> None:
    before = profile(100_000, update_microseconds=100)
    assert not has_moved(before, profile(100_000, update_microseconds=200))


@given(compute=st.integers(1000, 10**9), percent=st.integers(-9, 9))
def test_a_profile_within_a_tenth_has_not_moved(compute: int, percent: int) -> None:
    def scaled(factor: float) -> JobProfile:
        return profile(int(compute * factor), pull_microseconds=0, push_microseconds=0)

    assert not has_moved(scaled(1), scaled(1 + percent / 100))
