from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import job, profile, slots
from planner_rules import carried_out, check_rules, snapshots

from harmony_planner import memory
from harmony_planner.planner import plan
from harmony_planner.snapshot import CurrentGroup, Job, Plan, Slot, Snapshot

GIB = 2**30


def planned(*jobs: Job, on: int | tuple[Slot, ...] = 1, **fields: Any) -> Plan:
    places = slots(on) if isinstance(on, int) else on
    return plan(Snapshot(jobs=jobs, slots=places, **fields))


def members(decision: Plan) -> list[set[str]]:
    return [{member.job for member in group.members} for group in decision.groups]


def reasons(decision: Plan) -> dict[str, str]:
    seated = {member.job: member.reason for group in decision.groups for member in group.members}
    return seated | {waiting.job: waiting.reason for waiting in decision.waiting}


def test_nothing_to_do_is_an_empty_plan() -> None:
    assert planned() == Plan()


def test_a_complementary_pair_shares_a_slot_and_says_what_is_gained() -> None:
    decision = planned(job("a", 100, 50, 50), job("b", 90, 50, 50))
    assert members(decision) == [{"a", "b"}]
    assert reasons(decision)["b"] == (
        "shares slot-0 with a: predicted cycle 200 ms for 390 ms in turn, 5 % slower than alone"
    )


def test_a_hint_counts_as_a_profile_and_is_named_as_one() -> None:
    hinted = [
        replace(job(name, submitted=0), profile=profile(100, 50, 50, hint=True)) for name in "ab"
    ]
    decision = planned(*hinted)
    assert members(decision) == [{"a", "b"}]
    assert "predicted from hints cycle 200 ms" in reasons(decision)["a"]


def test_free_slots_are_taken_before_one_is_shared() -> None:
    decision = planned(job("a", 100, 50, 50), job("b", 100, 50, 50), on=2)
    assert members(decision) == [{"a"}, {"b"}]
    assert reasons(decision)["b"] == "alone on slot-1: nobody shares it now"


def test_an_unmeasured_job_probes_with_one_other_at_most() -> None:
    decision = planned(job("a"), job("b"), job("c"))
    assert members(decision) == [{"a", "b"}]
    assert decision.groups[0].prediction is None
    assert "as a probe" in reasons(decision)["a"]
    assert "not measured yet" in reasons(decision)["c"]


def test_two_compute_bound_jobs_do_not_share() -> None:
    decision = planned(
        job("a", 200, 1, 1, max_slowdown_percent=500),
        job("b", 200, 1, 1, max_slowdown_percent=500),
    )
    assert members(decision) == [{"a"}]
    assert "too little to gain" in reasons(decision)["b"]


def test_a_slowdown_limit_keeps_a_job_waiting_with_the_figures() -> None:
    decision = planned(job("a", 150, 25, 25, max_slowdown_percent=20), job("b", 150, 25, 25))
    assert reasons(decision)["b"] == (
        "waits until a slot is free: "
        "a would be 50 % slower than alone, its sharing.maxSlowdownPercent is 20"
    )


def test_an_exclusive_job_is_alone_and_says_so() -> None:
    decision = planned(job("a", 100, 50, 50, policy="Exclusive"), job("b", 100, 50, 50))
    assert reasons(decision) == {
        "a": "alone on slot-0: it is Exclusive",
        "b": "waits until a slot is free: sharing.policy of a is Exclusive",
    }


def test_jobs_that_were_slower_together_are_not_tried_again() -> None:
    decision = planned(job("a", 100, 50, 50), job("b", 100, 50, 50, separated_from=frozenset("a")))
    assert reasons(decision)["b"] == "waits until a slot is free: b was slower with a than in turn"


def test_a_measured_pair_that_was_separated_is_split_and_the_later_one_leaves() -> None:
    decision = planned(
        job("a", 100, 50, 50, current_group="g"),
        job("b", 100, 50, 50, current_group="g", separated_from=frozenset("a")),
        groups=(CurrentGroup(name="g", slots=("slot-0",)),),
    )
    assert [group.name for group in decision.groups] == ["g"]
    assert members(decision) == [{"a"}]


def test_a_running_group_is_kept_when_another_would_gain_little() -> None:
    running = [job(name, 100, 50, 50, current_group="g") for name in "ab"]
    decision = planned(*running, on=2, groups=(CurrentGroup(name="g", slots=("slot-1",)),))
    assert members(decision) == [{"a", "b"}]
    assert decision.groups[0].slots == ("slot-1",)


def test_a_job_moves_to_a_free_slot_when_that_pays() -> None:
    running = [job(name, 150, 25, 25, current_group="g") for name in "ab"]
    decision = planned(*running, on=2, groups=(CurrentGroup(name="g", slots=("slot-1",)),))
    assert members(decision) == [{"b"}, {"a"}] or members(decision) == [{"a"}, {"b"}]
    assert {group.slots for group in decision.groups} == {("slot-0",), ("slot-1",)}


def test_a_group_whose_slot_is_gone_is_placed_anew() -> None:
    decision = planned(
        job("a", 100, 50, 50, current_group="g"),
        groups=(CurrentGroup(name="g", slots=("lost",)),),
    )
    assert [group.slots for group in decision.groups] == [("slot-0",)]
    assert decision.groups[0].name != "g"


def test_a_correction_counts_when_a_group_is_judged() -> None:
    pair = [job(name, 100, 50, 50, current_group="g", max_slowdown_percent=30) for name in "ab"]
    kept = planned(*pair, groups=(CurrentGroup(name="g", slots=("slot-0",), correction=1.2),))
    assert members(kept) == [{"a", "b"}]
    split = planned(*pair, groups=(CurrentGroup(name="g", slots=("slot-0",), correction=1.7),))
    assert members(split) == [{"a"}]


def test_jobs_that_differ_by_noise_only_run_equally_often() -> None:
    four = [
        job(name, 60 + wobble, 28, 28, max_slowdown_percent=400, current_group="g")
        for name, wobble in zip("abcd", (0, 3, 1, 2), strict=True)
    ]
    decision = planned(*four, groups=(CurrentGroup(name="g", slots=("slot-0",)),))
    assert [[member.rounds for member in group.members] for group in decision.groups] == [[1] * 4]


def test_a_running_group_survives_a_limit_exceeded_by_less_than_the_margin() -> None:
    over = [job(name, 150, 25, 25, max_slowdown_percent=30) for name in "ab"]
    assert members(planned(*over)) == [{"a"}]
    running = [replace(each, current_group="g") for each in over]
    kept = planned(*running, groups=(CurrentGroup(name="g", slots=("slot-0",)),))
    assert members(kept) == [{"a", "b"}]


def test_a_wide_job_takes_one_slot_per_worker_and_a_narrow_one_rides_along() -> None:
    decision = planned(job("a", 100, 20, 20, workers=2), job("b", 40, 30, 30), on=2)
    assert members(decision) == [{"a", "b"}]
    seats = {member.job: member.slots for member in decision.groups[0].members}
    assert seats == {"a": ("slot-0", "slot-1"), "b": ("slot-0",)}


def test_a_job_that_is_too_wide_says_how_many_slots_there_are() -> None:
    decision = planned(job("a", workers=3), job("b", gpus_per_worker=1), on=2)
    assert reasons(decision) == {
        "a": "needs 3 slots, there are 2",
        "b": "needs 1 slot of 1 GPU, there are none",
    }


def test_memory_shares_add_up_to_the_device() -> None:
    gpu = slots(1, memory_bytes=10 * GIB)
    decision = planned(
        job("a", 100, 50, 50, footprint_bytes=8 * GIB, minimum_bytes=3 * GIB),
        job("b", 90, 50, 50, footprint_bytes=6 * GIB, minimum_bytes=3 * GIB),
        on=gpu,
    )
    shares = {m.job: m.memory_bytes or 0 for m in decision.groups[0].members}
    assert shares["a"] == pytest.approx(5.5 * GIB)
    assert shares["b"] == pytest.approx(4.5 * GIB)


def test_jobs_whose_minimums_do_not_fit_do_not_share() -> None:
    gpu = slots(1, memory_bytes=10 * GIB)
    jobs = [job(name, 100, 50, 50, footprint_bytes=6 * GIB) for name in "ab"]
    assert reasons(planned(*jobs, on=gpu))["b"] == (
        "waits until a slot is free: a and b cannot be held to less than 12 GiB of device memory "
        "(sharing.deviceMemory), slot-0 has 10 GiB"
    )


def test_a_job_that_declares_no_memory_shares_no_device_whose_memory_is_known() -> None:
    gpu = slots(1, memory_bytes=10 * GIB)
    decision = planned(job("a", 100, 50, 50), job("b", 90, 50, 50), on=gpu)
    assert members(decision) == [{"a"}]
    assert "declares no sharing.deviceMemory" in reasons(decision)["b"]


def test_a_job_larger_than_every_device_says_so() -> None:
    gpu = slots(2, memory_bytes=10 * GIB)
    decision = planned(job("a", footprint_bytes=16 * GIB), on=gpu)
    assert "cannot be held to less than 16 GiB" in reasons(decision)["a"]


@settings(max_examples=80, deadline=None)
@given(snapshots())
def test_every_plan_keeps_every_rule(snapshot: Snapshot) -> None:
    check_rules(snapshot, plan(snapshot))


@settings(max_examples=25, deadline=None)
@given(snapshots(), st.randoms())
def test_a_plan_depends_on_the_snapshot_alone(snapshot: Snapshot, random: Any) -> None:
    shuffled = list(snapshot.jobs)
    random.shuffle(shuffled)
    assert plan(snapshot) == plan(replace(snapshot, jobs=tuple(shuffled)))


@settings(max_examples=25, deadline=None)
@given(snapshots())
def test_a_plan_that_was_carried_out_is_kept(snapshot: Snapshot) -> None:
    first = plan(snapshot)
    second = plan(carried_out(snapshot, first))
    corrected = any(group.correction != 1 for group in snapshot.groups)
    if not corrected:
        assert members(second) == members(first)
        assert all(waiting.preempted_by is None for waiting in second.waiting)


def test_shares_never_exceed_what_a_job_can_use() -> None:
    gpu = slots(1, memory_bytes=100 * GIB)[0]
    jobs = [
        job("a", footprint_bytes=8 * GIB, minimum_bytes=GIB),
        job("b", footprint_bytes=6 * GIB, minimum_bytes=GIB),
    ]
    assert memory.shares(jobs, gpu) == {"a": 8 * GIB, "b": 6 * GIB}
