"""Plans that begin from the last one: they keep the rules, and touch what has changed only."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import job, profile, slots
from planner_rules import carried_out, check_rules

from harmony_planner import remembered
from harmony_planner.planner import plan
from harmony_planner.remembered import Remembered
from harmony_planner.snapshot import Job, Plan, Snapshot

milliseconds = st.integers(1, 120)


def seats(decision: Plan) -> dict[str, tuple[str, ...]]:
    return {member.job: member.slots for group in decision.groups for member in group.members}


@st.composite
def jobs(draw: st.DrawFn, at: int) -> Job:
    return job(
        f"job-{at}",
        submitted=at,
        workers=draw(st.sampled_from([1, 1, 2])),
        priority=draw(st.sampled_from([0, 0, 0, 5])),
        policy=draw(st.sampled_from(["Shared", "Shared", "Exclusive"])),
        max_slowdown_percent=draw(st.integers(20, 200)),
        profile=draw(st.none() | st.builds(profile, milliseconds, milliseconds, milliseconds)),
    )


def test_a_newcomer_joins_and_everybody_else_stays() -> None:
    last = Remembered()
    first = Snapshot(jobs=(job("a", 100, 50, 50), job("b", 100, 5, 5)), slots=slots(2))
    after = carried_out(first, plan(first, last))
    more = replace(after, jobs=(*after.jobs, job("c", 100, 50, 50)))
    decision = plan(more, last)
    assert seats(decision) == {"a": ("slot-0",), "c": ("slot-0",), "b": ("slot-1",)}


def test_a_job_that_waits_gets_the_slot_that_becomes_free() -> None:
    last = Remembered()
    both = tuple(job(name, policy="Exclusive") for name in "ab")
    first = Snapshot(jobs=both, slots=slots(1))
    decision = plan(first, last)
    assert [one.job for one in decision.waiting] == ["b"]
    after = carried_out(first, decision)
    assert seats(plan(replace(after, jobs=after.jobs[1:]), last)) == {"b": ("slot-0",)}


def test_a_plan_that_was_not_carried_out_is_made_again() -> None:
    last = Remembered()
    snapshot = Snapshot(jobs=(job("a", 100, 50, 50), job("b", 100, 50, 50)), slots=slots(1))
    assert plan(snapshot, last) == plan(snapshot, last)


def test_other_slots_begin_anew() -> None:
    last = Remembered()
    snapshot = Snapshot(jobs=(job("a"), job("b"), job("c")), slots=slots(1))
    plan(snapshot, last)
    wider = replace(snapshot, slots=slots(3))
    assert plan(wider, last) == plan(wider)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 4), st.sampled_from([0, 64]))
def test_every_plan_of_a_changing_cluster_keeps_the_rules_and_restarts_nobody_for_nothing(
    data: st.DataObject, count: int, few: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(remembered, "FEW_WAIT", few)
        live_through(data, count)


def live_through(data: st.DataObject, count: int) -> None:
    last = Remembered()
    snapshot = Snapshot(jobs=(), slots=slots(count))
    for at in range(data.draw(st.integers(1, 9), label="events")):
        if snapshot.jobs and data.draw(st.integers(0, 2), label="ends") == 0:
            gone = data.draw(st.sampled_from(snapshot.jobs))
            left = tuple(one for one in snapshot.jobs if one is not gone)
            snapshot = replace(snapshot, jobs=left)
        else:
            snapshot = replace(snapshot, jobs=(*snapshot.jobs, data.draw(jobs(at))))
        decision = plan(snapshot, last)
        check_rules(snapshot, decision)
        snapshot = carried_out(snapshot, decision)
    again = plan(snapshot, last)
    check_rules(snapshot, again)
    assert seats(again) == seats(decision)
