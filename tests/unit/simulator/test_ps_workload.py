from collections import Counter

import pytest

from harmony_simulator.workload.examples import measured_settings
from harmony_simulator.workload.generator import LEAST_ITERATION_SECONDS, Workload


def test_eighty_jobs_of_four_applications_and_every_setting_once() -> None:
    jobs = Workload().trace().jobs
    assert len(jobs) == 80
    assert list(Counter(job.model for job in jobs).values()) == [20] * 4


def test_the_same_seed_gives_the_same_jobs_and_another_seed_others() -> None:
    assert Workload(seed=4).trace() == Workload(seed=4).trace()
    assert Workload(seed=4).trace() != Workload(seed=5).trace()


def test_a_workload_may_be_larger_than_the_list_of_settings() -> None:
    jobs = Workload(jobs=200).trace().jobs
    assert len({job.id for job in jobs}) == 200


def test_the_ratio_of_compute_to_network_is_the_measured_one() -> None:
    measured = {
        round(one.compute_seconds / one.iteration_seconds, 9) for one in measured_settings()
    }
    for job in Workload().trace().jobs:
        assert round(job.stages.compute_seconds / job.iteration_seconds, 9) in measured
        assert job.iteration_seconds >= LEAST_ITERATION_SECONDS


def test_poisson_arrivals_have_the_mean_distance_and_others_come_at_once() -> None:
    trace = Workload(jobs=2000, arrivals="Poisson", interarrival_seconds=60).trace()
    assert trace.jobs[-1].submit_seconds / 1999 == pytest.approx(60, rel=0.1)
    assert all(job.submit_seconds == 0 for job in Workload().trace().jobs)


def test_a_workload_without_jobs_or_time_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one job"):
        Workload(jobs=0)
    with pytest.raises(ValueError, match="apart"):
        Workload(interarrival_seconds=0)
