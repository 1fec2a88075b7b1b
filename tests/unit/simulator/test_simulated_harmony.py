"""Harmony's groups under Muri's charges: better than Muri, and nothing known that may not be."""

from dataclasses import replace

import pytest
from published_traces import needs_published_traces, published, published_cluster
from simulated_jobs import ALONE, finishes, job, run

from harmony_simulator.event_loop import simulate
from harmony_simulator.policies.harmony import Harmony
from harmony_simulator.policies.muri import muri_l, muri_s
from harmony_simulator.policies.single import srsf
from harmony_simulator.trace import Trace

COMPLEMENTS = {"load": 0.0, "compute": 0.5, "network": 0.5}


@needs_published_traces
@pytest.mark.parametrize("durations_known", [True, False])
def test_jobs_complete_sooner_than_under_muri(durations_known: bool) -> None:
    trace = published("cluster_trace", 60)
    muri = muri_s() if durations_known else muri_l()
    harmony = Harmony(durations_known=durations_known)
    theirs = simulate(trace, muri, published_cluster())
    ours = simulate(trace, harmony, published_cluster())

    assert ours.mean_completion_seconds < 0.95 * theirs.mean_completion_seconds
    assert ours.makespan_seconds < 1.02 * theirs.makespan_seconds
    assert not ours.unfinished


@needs_published_traces
def test_where_all_jobs_need_the_same_nothing_is_lost_against_the_shortest_first() -> None:
    trace = published("job_type_1", 60)
    ours = simulate(trace, Harmony(durations_known=True), published_cluster())
    shortest = simulate(trace, srsf(), published_cluster())

    assert ours.mean_completion_seconds < 1.005 * shortest.mean_completion_seconds


@needs_published_traces
def test_without_durations_the_lengths_of_unfinished_jobs_change_nothing() -> None:
    trace = published("cluster_trace", 40)
    last = trace.jobs[-1].submit_seconds
    before = simulate(trace, Harmony(durations_known=False), published_cluster())
    unfinished = {o.id for o in before.outcomes if (o.finish_seconds or 0.0) > last}
    longer = Trace(
        tuple(
            replace(each, iterations=each.iterations * 3, known_duration_seconds=1.0)
            if each.id in unfinished
            else each
            for each in trace.jobs
        )
    )
    after = simulate(longer, Harmony(durations_known=False), published_cluster())

    assert unfinished
    assert [s for s in before.samples if s.at_seconds <= last] == [
        s for s in after.samples if s.at_seconds <= last
    ]


@pytest.mark.parametrize("durations_known", [True, False])
def test_jobs_that_fit_run_alone(durations_known: bool) -> None:
    jobs = [job("a", gpus=4, **COMPLEMENTS), job("b", gpus=4, **COMPLEMENTS)]
    result = run(jobs, Harmony(durations_known=durations_known))

    assert finishes(result) == {"a": 1000 * ALONE, "b": 1000 * ALONE}


@pytest.mark.parametrize("durations_known", [True, False])
def test_jobs_that_complement_each_other_share(durations_known: bool) -> None:
    jobs = [job("a", gpus=8, **COMPLEMENTS), job("b", gpus=8, **COMPLEMENTS)]
    together = pytest.approx(1000 * 1.33 / 1.015)
    result = run(jobs, Harmony(durations_known=durations_known))

    assert finishes(result) == {"a": together, "b": together}


def test_jobs_that_slow_each_other_take_turns_the_shorter_first() -> None:
    jobs = [job("long", gpus=8, seconds=5000.0), job("short", gpus=8)]

    assert finishes(run(jobs, Harmony(durations_known=True)))["short"] == 1000 * ALONE


@pytest.mark.parametrize("durations_known", [True, False])
def test_a_job_wider_than_the_cluster_waits_and_changes_nothing(durations_known: bool) -> None:
    jobs = [job("a", gpus=8, **COMPLEMENTS), job("b", gpus=8, **COMPLEMENTS)]
    result = run([job("huge", gpus=9), *jobs], Harmony(durations_known=durations_known))
    without = run(jobs, Harmony(durations_known=durations_known))

    assert finishes(result) == {"huge": None, **finishes(without)}
    assert [outcome.id for outcome in result.unfinished] == ["huge"]
