"""A wide job that has waited long gets the slots that become free, one after the other."""

from planner_examples import job, slots
from planner_rules import carried_out

from harmony_planner.planner import plan
from harmony_planner.snapshot import CurrentGroup, Job, Plan, Snapshot

EXCLUSIVE = {"policy": "Exclusive"}
BUSY = job("a", 100, 50, 50, current_group="g0")
WIDE = job("w", workers=2, submitted=200, overdue=True, **EXCLUSIVE)
NARROW = job("z", submitted=300, **EXCLUSIVE)


def planned(*jobs: Job) -> tuple[Snapshot, Plan]:
    running = any(each.current_group for each in jobs)
    groups = (CurrentGroup(name="g0", slots=("slot-0",)),) if running else ()
    snapshot = Snapshot(jobs=jobs, slots=slots(2), groups=groups)
    return snapshot, plan(snapshot)


def seats(decision: Plan) -> dict[str, tuple[str, ...]]:
    return {member.job: member.slots for group in decision.groups for member in group.members}


def reasons(decision: Plan) -> dict[str, str]:
    return {waiting.job: waiting.reason for waiting in decision.waiting}


def test_without_waiting_long_a_wide_job_lets_narrow_ones_pass() -> None:
    young = job("w", workers=2, submitted=200, **EXCLUSIVE)
    _, decision = planned(BUSY, young, NARROW)
    assert seats(decision) == {"a": ("slot-0",), "z": ("slot-1",)}


def test_a_free_slot_is_kept_and_both_are_told() -> None:
    _, decision = planned(BUSY, WIDE, NARROW)
    assert seats(decision) == {"a": ("slot-0",)}
    assert "1 slot of its 2 is free and kept for it" in reasons(decision)["w"]
    assert "1 free slot is kept for w, which needs 2 and has waited long" in reasons(decision)["z"]


def test_others_may_share_meanwhile() -> None:
    _, decision = planned(BUSY, WIDE, job("z", 100, 50, 50, submitted=300))
    assert seats(decision) == {"a": ("slot-0",), "z": ("slot-0",)}


def test_it_begins_when_there_are_enough() -> None:
    snapshot, decision = planned(BUSY, WIDE, NARROW)
    after = carried_out(snapshot, decision)
    ended = Snapshot(jobs=after.jobs[1:], slots=after.slots)
    assert seats(plan(ended)) == {"w": ("slot-0", "slot-1")}


def test_a_job_of_higher_priority_gets_the_slot_all_the_same() -> None:
    _, decision = planned(BUSY, WIDE, job("z", submitted=300, priority=1, **EXCLUSIVE))
    assert seats(decision) == {"a": ("slot-0",), "z": ("slot-1",)}
