"""A job gets slots only on nodes that its pods accept, and that let them run."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import job, slots

from harmony_planner.planner import plan
from harmony_planner.snapshot import CurrentGroup, Job, Plan, Slot, Snapshot

ZONE = "workers.template.spec.nodeSelector asks for label zone=a"
FULL = "kube-scheduler found no room: Insufficient memory"


def places(count: int, **fields: Any) -> tuple[Slot, ...]:
    """Return a slot on each of some nodes, `node-0` and so on."""
    return tuple(
        replace(slot, node=f"node-{index}") for index, slot in enumerate(slots(count, **fields))
    )


def planned(*jobs: Job, on: int = 2) -> Plan:
    held = {each.current_group for each in jobs if each.current_group}
    groups = tuple(CurrentGroup(name=name, slots=(f"slot-{name[1:]}",)) for name in sorted(held))
    return plan(Snapshot(jobs=jobs, slots=places(on), groups=groups))


def seats(decision: Plan) -> dict[str, tuple[str, ...]]:
    return {member.job: member.slots for group in decision.groups for member in group.members}


def test_a_job_takes_the_slot_of_a_node_that_it_accepts() -> None:
    assert seats(planned(job("a", barred={"node-0": ZONE}))) == {"a": ("slot-1",)}


def test_a_job_waits_while_only_nodes_that_it_does_not_accept_have_slots() -> None:
    busy = job("a", current_group="g0", policy="Exclusive")
    decision = planned(busy, job("b", barred={"node-1": ZONE, "node-2": ZONE}), on=3)
    assert seats(decision) == {"a": ("slot-0",)}
    assert decision.waiting[0].reason == (
        "waits until a slot is free: sharing.policy of a is Exclusive; "
        f"cannot use node node-1 and 1 more: {ZONE}"
    )
    assert not decision.waiting[0].never_fits


def test_a_job_that_accepts_no_node_is_told_that_it_never_fits() -> None:
    (waiting,) = planned(job("a", barred={"node-0": ZONE, "node-1": ZONE})).waiting
    assert waiting.never_fits
    assert waiting.reason == f"needs 1 slot, there are none that it may use: {ZONE}"


def test_a_job_that_fits_no_node_at_all_is_not_sent_to_look_at_its_selector() -> None:
    (waiting,) = planned(job("a", workers=3, barred={"node-0": ZONE})).waiting
    assert waiting.reason == "needs 3 slots, there are 2"


def test_a_job_joins_no_group_on_a_node_that_it_does_not_accept() -> None:
    first = job("a", 100, 50, 50, current_group="g0")
    second = job("b", 100, 50, 50, barred={"node-0": ZONE})
    third = job("c", 100, 50, 50, current_group="g1", policy="Exclusive")
    assert seats(planned(first, replace(second, barred={}), third))["b"] == ("slot-0",)
    assert "b" not in seats(planned(first, second, third))


def test_nobody_makes_way_on_a_node_that_the_newcomer_does_not_accept() -> None:
    low = job("a", current_group="g0", policy="Exclusive")
    high = job("b", priority=9, policy="Exclusive", barred={"node-0": ZONE})
    assert seats(planned(low, high, on=1)) == {"a": ("slot-0",)}


def test_a_job_stays_on_a_node_that_it_would_not_accept_any_more() -> None:
    assert seats(planned(job("a", current_group="g0", barred={"node-0": ZONE}))) == {
        "a": ("slot-0",)
    }


def test_a_job_whose_worker_finds_no_room_goes_elsewhere() -> None:
    stuck = job("a", current_group="g0", unschedulable={"node-0": FULL})
    assert seats(planned(stuck)) == {"a": ("slot-1",)}


def test_a_job_whose_worker_finds_no_room_stays_where_no_other_place_is() -> None:
    stuck = job("a", current_group="g0", unschedulable={"node-0": FULL})
    (group,) = planned(stuck, on=1).groups
    assert group.name == "g0"


def test_it_makes_way_for_a_job_that_can_use_the_slot() -> None:
    stuck = job("a", current_group="g0", priority=9, unschedulable={"node-0": FULL})
    waiting = job("b", policy="Exclusive")
    decision = planned(stuck, waiting, on=1)
    assert seats(decision) == {"b": ("slot-0",)}
    assert decision.waiting[0].reason == (
        f"waits until a slot is free: cannot use node node-0: {FULL}"
    )


def test_it_displaces_nobody() -> None:
    stuck = job("a", current_group="g0", priority=9, unschedulable={"node-0": FULL})
    running = job("b", current_group="g1", policy="Exclusive")
    assert seats(planned(stuck, running)) == {"a": ("slot-0",), "b": ("slot-1",)}


def test_the_others_of_its_group_stay_and_it_returns_to_them() -> None:
    runs = job("a", 100, 50, 50, current_group="g0")
    stuck = job("b", 100, 50, 50, current_group="g0", unschedulable={"node-0": FULL})
    decision = planned(runs, stuck, on=1)
    assert seats(decision) == {"a": ("slot-0",), "b": ("slot-0",)}
    assert seats(planned(runs, stuck)) == {"a": ("slot-0",), "b": ("slot-1",)}


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 2), st.booleans(), st.sets(st.integers(0, 3))),
        min_size=1,
        max_size=6,
    ),
    st.integers(1, 4),
)
def test_no_slot_is_kept_by_a_stuck_job_while_a_waiting_one_could_use_it(
    wishes: list[tuple[int, bool, set[int]]], count: int
) -> None:
    jobs = []
    for at, (priority, runs, nodes) in enumerate(wishes):
        without = {f"node-{node}": FULL for node in nodes}
        group = f"g{at}" if runs and at < count else None
        name = chr(ord("a") + at)
        jobs.append(
            job(
                name,
                priority=priority,
                policy="Exclusive",
                current_group=group,
                unschedulable=without,
            )
        )
    decision = planned(*jobs, on=count)
    its_seats = seats(decision)
    node_of = {slot.name: slot.node for slot in places(count)}
    by_name = {each.name: each for each in jobs}
    for name, (slot,) in its_seats.items():
        if node_of[slot] in by_name[name].unschedulable:
            assert by_name[name].current_group == f"g{slot.removeprefix('slot-')}"
            for waiting in decision.waiting:
                assert node_of[slot] in by_name[waiting.job].unschedulable
