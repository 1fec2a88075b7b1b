"""What the sidecars of a local run are told, as a node's one permit table takes it."""

from harmony_api.node_plan import NodePlan
from harmony_api.profile import JobProfile
from harmony_api.worker_protocol import Epoch, Phase
from harmony_cli.local.placement import seats
from harmony_cli.local.slots import LocalSlot
from harmony_planner.snapshot import Group, Member, Plan
from harmony_sidecar.cyclic_order import Member as Name
from harmony_sidecar.decisions import Granted, LiveTurn
from harmony_sidecar.permits import PermitTable

SLOTS = tuple(LocalSlot(name=f"cpu-slot-{index}", device_kind="cpu") for index in range(2))
PROFILE = JobProfile(
    iterations=100,
    compute_microseconds=1_500_000,
    pull_microseconds=500_000,
    push_microseconds=500_000,
    update_microseconds=0,
)


def plans_of_two_wide_jobs() -> dict[Name, NodePlan]:
    members = tuple(
        Member(
            job=job,
            order=order,
            rounds=1,
            slots=tuple(slot.name for slot in SLOTS),
            memory_bytes=None,
            reason="",
        )
        # In another order than their names'.
        for order, job in enumerate(("second", "first"))
    )
    group = Group(name="g", slots=members[0].slots, members=members, prediction=None)
    found = seats(
        Plan(groups=(group,)),
        SLOTS,
        {"first": PROFILE, "second": PROFILE},
        generation=1,
        permits="Cyclic",
        network="HalfDuplex",
    )
    return {
        Name(f"{job}/{worker}"): seat.node_plans[worker]
        for worker in range(len(SLOTS))
        for job, seat in found.items()
    }


def joined(plans: dict[Name, NodePlan]) -> PermitTable:
    table = PermitTable(Epoch(1))
    for name, plan in plans.items():
        table.join(name, plan, chunked=True, held=None, now_ns=0)
    return table


def granted(table: PermitTable, name: Name, phase: Phase) -> LiveTurn | None:
    decisions = table.request(name, 1, phase, 0)
    return next((one.live for one in decisions if isinstance(one, Granted)), None)


def test_all_workers_on_all_slots_have_leases_of_their_profile() -> None:
    plans = plans_of_two_wide_jobs()
    for name in plans:
        turn = granted(joined(plans), name, Phase.COMP)
        assert turn is not None
        assert turn.deadline_ns == 15_000_000_000


def test_any_two_workers_overlap_on_the_link_as_primary_and_secondary() -> None:
    plans = plans_of_two_wide_jobs()
    for first in plans:
        for second in plans.keys() - {first}:
            table = joined(plans)
            primary = granted(table, first, Phase.PULL)
            secondary = granted(table, second, Phase.PULL)
            assert primary is not None
            assert secondary is not None
            assert (primary.secondary, secondary.secondary) == (False, True)


def test_whoever_is_first_in_the_plan_is_first_of_all_slots() -> None:
    # Fixed alternation grants a turn to whoever is next in the plan's order alone.
    plans = {
        name: plan.model_copy(update={"permits": "FixedAlternation"})
        for name, plan in plans_of_two_wide_jobs().items()
    }
    allowed = {name for name in plans if granted(joined(plans), name, Phase.COMP)}
    assert allowed == {"second/0"}
