import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.cluster_world.contention import contended_seconds
from harmony_simulator.cluster_world.policies import NAMES, policy
from harmony_simulator.event_loop import simulate
from harmony_simulator.results import Result
from harmony_simulator.trace import Cluster, Stages, Trace, TraceJob

CALM = Conditions(startup_seconds=0, noise=0)


def job(
    id_: str,
    *,
    gpus: int = 1,
    submitted: float = 0.0,
    iterations: int = 1000,
    compute: float = 0.5,
    network: float = 0.5,
) -> TraceJob:
    seconds = compute + network
    return TraceJob(
        id=id_,
        gpus=gpus,
        submit_seconds=submitted,
        iterations=iterations,
        model="mlp",
        iteration_seconds=seconds,
        stages=Stages(0.0, compute, network),
        known_duration_seconds=iterations * seconds,
    )


def run(
    name: str, jobs: Sequence[TraceJob], conditions: Conditions = CALM, nodes: int = 1
) -> Result:
    return simulate(Trace.of(jobs), policy(name, conditions), Cluster(nodes, 1))


def finishes(result: Result) -> dict[str, float | None]:
    return {outcome.id: outcome.finish_seconds for outcome in result.outcomes}


def test_dedicated_jobs_take_turns_on_one_slot() -> None:
    assert finishes(run("dedicated", [job("a"), job("b")])) == {"a": 1000, "b": 2000}


def test_a_narrow_job_overtakes_a_wide_one_that_does_not_fit_unless_order_is_strict() -> None:
    jobs = [job("first"), job("wide", gpus=2, submitted=1), job("narrow", submitted=2)]
    assert finishes(run("dedicated", jobs, nodes=2))["narrow"] == 1002
    assert finishes(run("fifo", jobs, nodes=2))["narrow"] == 3000


def test_a_shorter_job_preempts_under_srtf_and_the_other_pays_for_its_second_start() -> None:
    jobs = [job("long"), job("short", submitted=100, iterations=10)]
    result = run("srtf", jobs, Conditions(startup_seconds=5, noise=0))
    assert finishes(result) == {"short": pytest.approx(115), "long": pytest.approx(1025)}


def test_fixed_partitions_gain_nothing_in_throughput() -> None:
    assert run("partitions", [job("a"), job("b")]).makespan_seconds == pytest.approx(2000)


def test_harmony_runs_a_balanced_pair_nearly_twice_as_fast_as_in_turn() -> None:
    makespan = run("harmony", [job("a"), job("b")]).makespan_seconds
    assert 1000 <= makespan <= 1100


def test_with_hints_a_third_job_joins_at_once_and_without_them_it_is_measured_first() -> None:
    jobs = [job(name, compute=0.2, network=0.3) for name in "abc"]
    hinted = run("harmony-hints", jobs)
    assert {outcome.first_start_seconds for outcome in hinted.outcomes} == {0.0}
    assert hinted.makespan_seconds < run("harmony", jobs).makespan_seconds


def test_naive_sharing_lies_between_in_turn_and_harmony() -> None:
    jobs = [job("a"), job("b")]
    naive = run("naive", jobs).makespan_seconds
    assert run("harmony", jobs).makespan_seconds < naive < 2000


def test_naive_sharing_of_the_measured_pair_is_as_fast_as_measured() -> None:
    phases = (0.0467, 0.0459), (0.0564, 0.0432)
    seconds = contended_seconds(phases)
    speed = sum(sum(alone) / each for alone, each in zip(phases, seconds, strict=True))
    assert speed == pytest.approx(1.33, rel=0.05)


@given(
    st.lists(st.tuples(st.floats(0.001, 1), st.floats(0.001, 1)), min_size=1, max_size=4).map(tuple)
)
def test_jobs_left_to_fight_are_never_faster_than_alone_nor_than_the_resources(
    phases: tuple[tuple[float, float], ...],
) -> None:
    seconds = contended_seconds(phases)
    for alone, each in zip(phases, seconds, strict=True):
        assert each >= sum(alone) * (1 - 1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_every_job_finishes_under_failures_and_slow_spells(name: str) -> None:
    hard = Conditions(seed=3, failures_per_node_day=40, slow_spells_per_node_day=40)
    jobs = [job(f"j{n}", gpus=1 + n % 3, submitted=60.0 * n) for n in range(12)]
    result = run(name, jobs, hard, nodes=4)
    assert not result.unfinished
    calm = run(name, jobs, nodes=4)
    assert result.makespan_seconds > calm.makespan_seconds


@pytest.mark.parametrize("name", NAMES)
def test_the_same_seed_gives_the_same_run(name: str) -> None:
    conditions = Conditions(seed=5, failures_per_node_day=20)
    jobs = [job(f"j{n}", gpus=1 + n % 2, compute=0.2 + 0.1 * (n % 5)) for n in range(8)]
    assert run(name, jobs, conditions, nodes=3) == run(name, jobs, conditions, nodes=3)


@pytest.mark.parametrize("name", NAMES)
def test_a_job_wider_than_the_cluster_waits_with_a_reason_and_blocks_nobody(name: str) -> None:
    result = run(name, [job("giant", gpus=9), job("a"), job("b")], nodes=2)
    (giant,) = result.unfinished
    assert giant.id == "giant"
    assert giant.reason is not None
    assert "9" in giant.reason


@pytest.mark.parametrize("name", NAMES)
def test_a_slot_never_computes_nor_transfers_for_more_than_its_time(name: str) -> None:
    jobs = [job(f"j{n}", gpus=2, compute=0.3 + 0.05 * n, network=0.5) for n in range(10)]
    for sample in run(name, jobs, nodes=5).samples:
        assert sample.compute_utilisation <= 1.001
        assert sample.network_utilisation <= 1.001


def test_conditions_that_make_no_sense_are_refused() -> None:
    with pytest.raises(ValueError, match="noise is at least 0, not -1"):
        Conditions(noise=-1)
    with pytest.raises(ValueError, match="slow_factor"):
        Conditions(slow_factor=math.nan)
