"""The planner beside the best plan that there is, and what goes before the objective."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import job, profile, slots
from planner_rules import check_rules

from harmony_planner.exact import best_value
from harmony_planner.grouping import RUNNING_COUNTS
from harmony_planner.planner import plan
from harmony_planner.snapshot import Job, Plan, Snapshot

phase = st.integers(5, 100)


@st.composite
def first_plans(draw: st.DrawFn) -> Snapshot:
    """Measured jobs of one priority that have not started."""
    jobs = [
        job(
            f"job-{at}",
            submitted=at,
            workers=draw(st.sampled_from([1, 1, 1, 2])),
            policy=draw(st.sampled_from(["Shared", "Shared", "Shared", "Exclusive"])),
            max_slowdown_percent=draw(st.sampled_from([20, 50, 100, 200])),
            profile=draw(st.builds(profile, phase, phase, phase)),
        )
        for at in range(draw(st.integers(1, 6)))
    ]
    return Snapshot(
        jobs=tuple(jobs),
        slots=slots(draw(st.integers(2, 3))),
        network=draw(st.sampled_from(["HalfDuplex", "FullDuplex"])),
    )


def value(decision: Plan) -> float:
    members = sum(len(group.members) for group in decision.groups)
    speeds = [group.prediction.speedup for group in decision.groups if group.prediction]
    return sum(speeds) + RUNNING_COUNTS * members


def seated(decision: Plan) -> set[str]:
    return {member.job for group in decision.groups for member in group.members}


@settings(max_examples=60, deadline=None)
@given(first_plans())
def test_no_plan_is_better_than_the_best_one_nor_much_worse(snapshot: Snapshot) -> None:
    decision, best = plan(snapshot), best_value(snapshot)
    check_rules(snapshot, decision)
    assert 0.75 * best <= value(decision) <= best + 1e-6


@settings(max_examples=60, deadline=None)
@given(first_plans())
def test_who_would_run_if_nobody_shared_never_waits(snapshot: Snapshot) -> None:
    alone = tuple(replace(each, policy="Exclusive") for each in snapshot.jobs)
    assert seated(plan(replace(snapshot, jobs=alone))) <= seated(plan(snapshot))


def test_partners_are_chosen_for_the_sake_of_all() -> None:
    jobs = (
        job("a", 150, 25, 25),
        job("b", 120, 40, 40),
        job("c", 40, 80, 80),
        job("d", 20, 90, 90, max_slowdown_percent=12),
    )
    snapshot = Snapshot(jobs=jobs, slots=slots(2))
    assert value(plan(snapshot)) == pytest.approx(best_value(snapshot))


def test_a_third_member_is_taken_where_it_brings_more_than_it_costs() -> None:
    jobs = tuple(job(name, 30, 15, 15, max_slowdown_percent=100) for name in "abc")
    snapshot = Snapshot(jobs=(*jobs, job("d", 10, 100, 100)), slots=slots(2))
    assert value(plan(snapshot)) == pytest.approx(best_value(snapshot))


@pytest.mark.parametrize(
    "snapshot",
    [
        Snapshot(jobs=(), slots=()),
        Snapshot(jobs=(job("a", 1, 1, 1), job("b", 1, 1, 1, priority=1)), slots=slots(1)),
        Snapshot(jobs=(job("a", 1, 1, 1, gpus_per_worker=1),), slots=slots(1)),
        Snapshot(jobs=(), slots=(*slots(1), replace(slots(2)[1], gpus=1))),
    ],
)
def test_what_the_exact_search_does_not_cover_is_refused(snapshot: Snapshot) -> None:
    with pytest.raises(ValueError, match="slot"):
        best_value(snapshot)


def test_the_best_value_of_one_job_is_its_own_speed() -> None:
    only: Job = job("a", 10, 10, 10)
    assert best_value(Snapshot(jobs=(only,), slots=slots(1))) == pytest.approx(1 + RUNNING_COUNTS)
