"""Who of one priority gets a place first."""

from dataclasses import replace

from planner_examples import job, slots

from harmony_planner.planner import plan
from harmony_planner.snapshot import CurrentGroup, Job, Snapshot

EXCLUSIVE = {"policy": "Exclusive"}


def first(*jobs: Job) -> str:
    """Return who gets the only slot."""
    [group] = plan(Snapshot(jobs=jobs, slots=slots(1))).groups
    [member] = group.members
    return member.job


def test_the_earliest_goes_first_where_nothing_is_said_of_lengths() -> None:
    assert first(job("b", submitted=2, **EXCLUSIVE), job("a", submitted=1, **EXCLUSIVE)) == "a"


def test_the_shortest_goes_first_where_lengths_count() -> None:
    long = job("a", service_seconds=900.0, **EXCLUSIVE)
    assert first(long, job("b", service_seconds=60.0, **EXCLUSIVE)) == "b"


def test_a_job_that_has_waited_long_is_not_overtaken_by_shorter_ones() -> None:
    long = job("a", service_seconds=900.0, overdue=True, **EXCLUSIVE)
    assert first(long, job("b", service_seconds=60.0, **EXCLUSIVE)) == "a"


def test_priority_counts_more_than_length() -> None:
    urgent = job("a", service_seconds=900.0, priority=1, **EXCLUSIVE)
    assert first(job("b", service_seconds=60.0, **EXCLUSIVE), urgent) == "a"


def test_among_many_the_shortest_joins_who_runs() -> None:
    pairs = {"max_slowdown_percent": 30}
    lengths = {"a": 500.0, "b": 900.0, "c": 30.0, "d": 400.0}
    jobs = [job(name, 100, 50, 50, service_seconds=each, **pairs) for name, each in lengths.items()]
    running = replace(jobs[0], current_group="g0")
    group = CurrentGroup(name="g0", slots=("slot-0",))
    decision = plan(Snapshot(jobs=(running, *jobs[1:]), slots=slots(1), groups=(group,)))
    assert [{member.job for member in one.members} for one in decision.groups] == [{"a", "c"}]
