"""Muri's policies: the published times of groups, and the rules one by one."""

from collections.abc import Callable

import pytest
from published_traces import needs_published_traces, published, published_cluster
from simulated_jobs import ALONE, STARTUP_SECONDS, finishes, job, run

from harmony_simulator.event_loop import simulate
from harmony_simulator.interleaving import cycle_seconds
from harmony_simulator.policies.muri import muri_l, muri_s
from harmony_simulator.policy import Policy

COMPLEMENTS = {"load": 0.0, "compute": 0.5, "network": 0.5}


@needs_published_traces
@pytest.mark.parametrize(
    ("models", "cycle_milliseconds"),
    [
        ("vgg16 bert", 317.7586),
        ("a2c bert", 676.6621),
        ("a2c dqn", 676.6621),
        ("shufflenet_v2_x1_0 gpt2", 1095.4483),
        ("shufflenet_v2_x1_0 resnet18", 1281.5172),
        ("a2c bert gpt2", 939.0148),
        ("a2c gpt2 vgg19", 838.5222),
        ("a2c gpt2 vgg19 bert", 975.8719),
        ("shufflenet_v2_x1_0 vgg16 bert gpt2", 1216.1281),
    ],
)
def test_groups_run_as_fast_as_in_the_published_simulator(
    models: str, cycle_milliseconds: float
) -> None:
    of_eight_gpus = {read.model: read for read in published("trace3").jobs if read.gpus == 8}
    group = [of_eight_gpus[model] for model in models.split()]

    assert cycle_seconds(group) * 1000 == pytest.approx(cycle_milliseconds, abs=1e-4)
    assert cycle_seconds(group[::-1]) == pytest.approx(cycle_seconds(group))


@needs_published_traces
@pytest.mark.parametrize(("policy", "published_seconds"), [(muri_s, 120_034), (muri_l, 127_846)])
def test_the_published_figures_are_met_but_for_ties(
    policy: Callable[[], Policy], published_seconds: float
) -> None:
    result = simulate(published("cluster_trace"), policy(), published_cluster())

    assert result.mean_completion_seconds == pytest.approx(published_seconds, rel=0.03)


@pytest.mark.parametrize("policy", [muri_s, muri_l])
def test_nothing_is_grouped_while_all_fit(policy: Callable[[], Policy]) -> None:
    jobs = [job("a", gpus=4, **COMPLEMENTS), job("b", gpus=4, **COMPLEMENTS)]

    assert finishes(run(jobs, policy())) == {"a": 1000 * ALONE, "b": 1000 * ALONE}


def test_jobs_of_one_width_share_when_they_do_not_fit() -> None:
    jobs = [job("a", gpus=8, **COMPLEMENTS), job("b", gpus=8, **COMPLEMENTS)]
    together = 1000 * 1.33 / 1.015

    assert finishes(run(jobs, muri_s())) == {"a": pytest.approx(together), "b": together}


def test_an_interval_costs_each_member_the_start_of_all() -> None:
    jobs = [
        job("a", gpus=8, **COMPLEMENTS),
        job("b", gpus=8, seconds=2000.0, **COMPLEMENTS),
        job("huge", gpus=9, submit=500.0),
    ]
    together = 1000 * 1.33 / 1.015

    assert finishes(run(jobs, muri_s()))["a"] == pytest.approx(together + 2 * STARTUP_SECONDS)


def test_a_group_slower_than_in_turn_is_split() -> None:
    jobs = [job("a", gpus=8), job("b", gpus=8)]

    assert finishes(run(jobs, muri_s()))["a"] == 1000 * ALONE


def test_jobs_of_different_width_never_share() -> None:
    jobs = [job("a", gpus=8, **COMPLEMENTS), job("b", gpus=4, **COMPLEMENTS)]

    assert min(seconds or 0.0 for seconds in finishes(run(jobs, muri_s())).values()) == 1000 * ALONE


def test_attained_service_decides_without_durations() -> None:
    jobs = [job("a", gpus=8, seconds=1e6), job("b", gpus=8, seconds=10.0, submit=1e5)]

    assert finishes(run(jobs, muri_l()))["b"] == pytest.approx(1e5 + 10 * ALONE)
