"""A job of higher priority goes first, and takes the place of lower ones where none is free."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import job, slots

from harmony_planner.planner import plan
from harmony_planner.snapshot import CurrentGroup, Job, Plan, Slot, Snapshot


def running(name: str, group: str, *milliseconds: int, **fields: object) -> Job:
    return job(name, *milliseconds, current_group=group, **fields)


def planned(*jobs: Job, on: int | tuple[Slot, ...] = 1) -> Plan:
    """Plan jobs; those of group `g<i>` run on slot i, and on the next ones where they are wide."""
    places = slots(on) if isinstance(on, int) else on
    widths: dict[str, int] = {}
    for each in jobs:
        if each.current_group is not None:
            widths[each.current_group] = max(widths.get(each.current_group, 1), each.workers)
    groups = tuple(
        CurrentGroup(
            name=name, slots=tuple(f"slot-{int(name[1:]) + more}" for more in range(width))
        )
        for name, width in sorted(widths.items())
    )
    return plan(Snapshot(jobs=jobs, slots=places, groups=groups))


def seats(decision: Plan) -> dict[str, tuple[str, ...]]:
    return {member.job: member.slots for group in decision.groups for member in group.members}


def displaced(decision: Plan) -> dict[str, str]:
    return {one.job: one.preempted_by for one in decision.waiting if one.preempted_by}


EXCLUSIVE = {"policy": "Exclusive"}


def test_priority_comes_before_the_order_of_submission() -> None:
    decision = planned(job("a", **EXCLUSIVE), job("b", priority=1, **EXCLUSIVE))
    assert seats(decision) == {"b": ("slot-0",)}
    assert displaced(decision) == {}


def test_a_free_slot_is_taken_before_anybody_is_displaced() -> None:
    decision = planned(running("a", "g0", **EXCLUSIVE), job("b", priority=9, **EXCLUSIVE), on=2)
    assert seats(decision) == {"a": ("slot-0",), "b": ("slot-1",)}


def test_a_group_that_may_be_joined_is_joined_before_anybody_is_displaced() -> None:
    decision = planned(running("a", "g0", 100, 50, 50), job("b", 100, 50, 50, priority=9))
    assert seats(decision) == {"a": ("slot-0",), "b": ("slot-0",)}


def test_nobody_is_displaced_by_a_job_of_the_same_priority() -> None:
    decision = planned(
        running("a", "g0", priority=5, **EXCLUSIVE), job("b", priority=5, **EXCLUSIVE)
    )
    assert seats(decision) == {"a": ("slot-0",)}


def test_a_group_whose_only_member_makes_way_ends_and_another_begins_on_its_slot() -> None:
    decision = planned(running("a", "g0", **EXCLUSIVE), job("b", priority=9, **EXCLUSIVE))
    assert [group.name for group in decision.groups] == ["group-1"]
    assert seats(decision) == {"b": ("slot-0",)}
    assert displaced(decision) == {"a": "b"}
    assert decision.waiting[0].reason == (
        "made way for b, whose priority 9 is above its 0; "
        "waits until a slot is free: sharing.policy of b is Exclusive"
    )


def test_only_as_many_members_of_a_group_make_way_as_must() -> None:
    decision = planned(
        running("a", "g0", 100, 50, 50),
        running("b", "g0", 100, 50, 50),
        job("c", 100, 50, 50, priority=9, max_slowdown_percent=10),
    )
    assert len(displaced(decision)) == 1
    assert seats(decision).keys() > {"c"}


def test_the_lowest_priority_makes_way_and_then_who_was_submitted_last() -> None:
    busy = [
        running(name, f"g{at}", priority=priority, submitted=submitted, **EXCLUSIVE)
        for at, (name, priority, submitted) in enumerate(
            [("a", 5, 0), ("b", 1, 1), ("c", 1, 2), ("d", 3, 3)]
        )
    ]
    assert displaced(planned(*busy, job("z", priority=9, **EXCLUSIVE), on=4)) == {"c": "z"}


def test_a_wide_job_displaces_as_many_as_it_needs_and_uses_what_is_free() -> None:
    busy = [running(name, f"g{at}", priority=at, **EXCLUSIVE) for at, name in enumerate("abc")]
    decision = planned(*busy, job("z", priority=9, workers=3, **EXCLUSIVE), on=4)
    assert displaced(decision) == {"a": "z", "b": "z"}
    assert set(seats(decision)["z"]) == {"slot-0", "slot-1", "slot-3"}


def test_low_priority_counts_more_than_few_so_that_nobody_displaces_in_turn() -> None:
    decision = planned(
        running("a", "g0", **EXCLUSIVE),
        running("b", "g1", **EXCLUSIVE),
        running("w", "g2", workers=2, priority=1, **EXCLUSIVE),
        job("z", priority=9, workers=2, **EXCLUSIVE),
        on=4,
    )
    assert displaced(decision) == {"a": "z", "b": "z"}


def test_one_wide_group_makes_way_rather_than_two_narrow_ones_of_its_priority() -> None:
    decision = planned(
        running("a", "g0", **EXCLUSIVE),
        running("b", "g1", **EXCLUSIVE),
        running("w", "g2", workers=2, **EXCLUSIVE),
        job("z", priority=9, workers=2, **EXCLUSIVE),
        on=4,
    )
    assert displaced(decision) == {"w": "z"}


def test_who_makes_way_takes_another_place_where_there_is_one() -> None:
    decision = planned(
        running("a", "g0", 100, 50, 50),
        running("b", "g1", 100, 50, 50, priority=5),
        job("z", priority=9, **EXCLUSIVE),
        on=2,
    )
    assert seats(decision) == {"z": ("slot-0",), "b": ("slot-1",), "a": ("slot-1",)}
    assert displaced(decision) == {}


def test_nobody_is_displaced_for_a_job_that_would_not_run_even_then() -> None:
    busy = running("a", "g0", **EXCLUSIVE)
    decision = planned(busy, job("b", priority=9, workers=2))
    assert seats(decision) == {"a": ("slot-0",)}
    assert decision.waiting[0].never_fits
    assert decision.waiting[0].reason == "needs 2 slots, there is 1"


def test_nobody_is_displaced_from_a_slot_that_is_closed() -> None:
    closed = (replace(slots(1)[0], closed="node is cordoned"),)
    decision = planned(running("a", "g0"), job("b", priority=9, **EXCLUSIVE), on=closed)
    assert seats(decision) == {"a": ("slot-0",)}
    assert decision.waiting[0].reason == (
        "waits until a slot is free: node is cordoned; "
        "no job of lower priority has a place in which it could run"
    )


@pytest.mark.parametrize("namespace", ["", "red"])
def test_jobs_share_within_a_namespace_only(namespace: str) -> None:
    decision = planned(
        job("a", 100, 50, 50, namespace=namespace), job("b", 100, 50, 50, namespace="red")
    )
    assert (len(seats(decision)) == 2) is (namespace == "red")


def test_a_closed_slot_keeps_its_job_and_is_given_to_nobody_else() -> None:
    closed = (replace(slots(1)[0], closed="a has not left yet"),)
    assert seats(planned(running("a", "g0", 100, 50, 50), job("b", 100, 50, 50), on=closed)) == {
        "a": ("slot-0",)
    }
    assert planned(job("b"), on=closed).waiting[0].reason == (
        "waits until a slot is free: a has not left yet"
    )


def test_a_lost_slot_of_a_group_is_replaced_by_a_free_one_at_its_place() -> None:
    wide = running("a", "g0", workers=3)
    left = tuple(slot for slot in slots(4) if slot.name != "slot-1")
    assert seats(planned(wide, on=left)) == {"a": ("slot-0", "slot-3", "slot-2")}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans(), st.integers(1, 2)), max_size=8),
    st.integers(1, 4),
)
def test_among_exclusive_jobs_nobody_waits_for_one_of_lower_priority(
    wishes: list[tuple[int, bool, int]], count: int
) -> None:
    free = list(range(count))
    jobs = []
    for at, (priority, runs, width) in enumerate(wishes):
        name = chr(ord("a") + at)
        if runs and free and width == 1:
            jobs.append(running(name, f"g{free.pop()}", priority=priority, **EXCLUSIVE))
        else:
            jobs.append(job(name, priority=priority, workers=width, **EXCLUSIVE))
    decision = planned(*jobs, on=count)
    ranks = {each.name: each.priority for each in jobs}
    widths = {each.name: each.workers for each in jobs}
    for waiting in decision.waiting:
        below = sum(
            len(its_slots)
            for name, its_slots in seats(decision).items()
            if ranks[name] < ranks[waiting.job]
        )
        unused = count - sum(map(len, seats(decision).values()))
        assert below + unused < widths[waiting.job]
