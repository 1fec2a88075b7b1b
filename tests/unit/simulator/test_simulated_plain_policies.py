"""Policies that give each job its own GPUs: the published figures, and the rules one by one."""

from collections.abc import Callable

import pytest
from published_traces import needs_published_traces, published, published_cluster
from simulated_jobs import ALONE, STARTUP_SECONDS, finishes, job, run

from harmony_simulator.event_loop import simulate
from harmony_simulator.policies.single import Fifo, srsf, srtf
from harmony_simulator.policies.tiresias import Tiresias
from harmony_simulator.policy import Policy
from harmony_simulator.trace import Cluster


@needs_published_traces
@pytest.mark.parametrize(
    ("policy", "jobs", "mean_seconds", "makespan_seconds"),
    [
        (srtf, 50, 178_542.312, 1_473_710.553),
        (srtf, 100, 165_988.178, 2_001_535.807),
        (srsf, 50, 161_358.696, 1_255_917.699),
        (srsf, 100, 143_962.520, 1_736_554.942),
        (Tiresias, 50, 225_425.609, 1_234_874.308),
        (Tiresias, 100, 181_392.232, 1_694_419.133),
    ],
)
def test_the_figures_of_the_published_simulator_come_out_to_the_digit(
    policy: Callable[[], Policy], jobs: int, mean_seconds: float, makespan_seconds: float
) -> None:
    result = simulate(published("trace3", jobs), policy(), published_cluster())

    assert result.mean_completion_seconds == pytest.approx(mean_seconds, abs=1e-3)
    assert result.makespan_seconds == pytest.approx(makespan_seconds, abs=1e-3)
    assert not result.unfinished


def test_the_interval_that_ends_in_a_jobs_finish_costs_it_no_start() -> None:
    assert finishes(run([job("a")], srtf())) == {"a": 1000 * ALONE}


def test_every_other_event_costs_a_running_job_its_start() -> None:
    result = run([job("a"), job("b", submit=100.0)], srtf())

    assert finishes(result)["a"] == pytest.approx(1000 * ALONE + STARTUP_SECONDS)


def test_an_interval_shorter_than_the_start_yields_no_progress() -> None:
    result = run([job("a"), job("b", submit=4.0)], srtf())

    assert finishes(result)["a"] == pytest.approx(1000 * ALONE + 4.0)


def test_the_shortest_remaining_time_preempts() -> None:
    result = run([job("long", gpus=8), job("short", gpus=8, seconds=10.0, submit=100.0)], srtf())

    assert finishes(result)["short"] == pytest.approx(100 + 10 * ALONE)


def test_remaining_service_counts_a_wide_job_by_its_width() -> None:
    jobs = [job("wide", gpus=8, seconds=200.0), job("narrow", gpus=1, seconds=1000.0)]

    assert finishes(run(jobs, srsf()))["narrow"] == 1000 * ALONE
    assert finishes(run(jobs, srtf()))["wide"] == 200 * ALONE


def test_a_job_that_does_not_fit_is_passed_over() -> None:
    jobs = [
        job("first", gpus=6, seconds=10.0),
        job("wide", gpus=8, seconds=20.0),
        job("narrow", gpus=2, seconds=30.0),
    ]

    starts = {o.id: o.first_start_seconds for o in run(jobs, srtf()).outcomes}

    assert starts == {"first": 0.0, "wide": 10 * ALONE, "narrow": 0.0}


def test_first_come_first_served_keeps_the_order_and_preempts_nobody() -> None:
    jobs = [
        job("first", gpus=6, seconds=1000.0),
        job("wide", gpus=8, seconds=1000.0, submit=1.0),
        job("narrow", gpus=1, seconds=1.0, submit=2.0),
    ]
    starts = {o.id: o.first_start_seconds for o in run(jobs, Fifo()).outcomes}

    assert starts["first"] == 0.0
    assert starts["wide"] is not None
    assert starts["wide"] > 1000
    assert starts["narrow"] is not None
    assert starts["narrow"] > starts["wide"]


def test_tiresias_serves_whoever_was_served_little() -> None:
    jobs = [job("old", gpus=8, seconds=10_000.0), job("new", gpus=8, seconds=100.0, submit=5000.0)]

    assert finishes(run(jobs, Tiresias()))["new"] == pytest.approx(5000 + 100 * ALONE)


@pytest.mark.parametrize("policy", [Fifo, srtf, srsf, Tiresias])
def test_a_job_wider_than_the_cluster_waits_with_a_reason_and_blocks_nobody(
    policy: Callable[[], Policy],
) -> None:
    result = run([job("huge", gpus=9), job("a", seconds=10.0)], policy())

    assert finishes(result) == {"huge": None, "a": pytest.approx(10 * ALONE)}
    assert [outcome.reason for outcome in result.unfinished] == [
        "asks for 9 GPUs, and the whole cluster has 8"
    ]


def test_jobs_wider_than_a_node_need_whole_free_nodes() -> None:
    jobs = [job("a", gpus=1), job("b", gpus=16, seconds=2000.0), job("c", gpus=8, seconds=3000.0)]
    starts = {o.id: o.first_start_seconds for o in run(jobs, srtf(), Cluster(2, 8)).outcomes}

    assert starts["a"] == 0.0
    assert starts["b"] == pytest.approx(1000 * ALONE)
    assert starts["c"] == 0.0
