"""The rules of permits, one by one, with time as a number."""

import pytest
from permit_tables import SECOND, A, B, C, D, ask, granted, plan, table_with

from harmony_api.worker_protocol import Epoch, Phase, Turn
from harmony_sidecar.cyclic_order import MINIMUM_LEASE_NANOSECONDS, Member, lease_nanoseconds
from harmony_sidecar.decisions import Ended, Granted, Promoted
from harmony_sidecar.permits import PermitTable


def serve_in_order(table: PermitTable, members: list[Member], turns: int) -> str:
    """Every member asks again as soon as its turn ends; return who was served, in order."""
    live = [turn for member in members for turn in ask(table, member)]
    served = ""
    while len(served) < turns:
        turn = live.pop(0)
        served += turn.member[0]
        live += granted(table.release(turn.member, turn.turn, 0))
        live += ask(table, turn.member)
    return served


def test_one_member_computes_at_a_time_and_the_next_follows_at_the_release() -> None:
    table = table_with(A, B)
    (first,) = ask(table, A)
    assert ask(table, B) == []
    (second,) = granted(table.release(A, first.turn, 1))
    assert (first.member, second.member) == (A, B)


def test_turns_carry_the_epoch_in_their_upper_half() -> None:
    (turn,) = ask(table_with(A), A)
    assert turn.turn >> 32 == 1


def test_the_cyclic_order_is_followed_and_whoever_is_not_ready_is_skipped() -> None:
    assert serve_in_order(table_with(A, B, C), [A, B, C], 6) == "abcabc"
    table = table_with(A, B, C)
    (turn,) = ask(table, A)
    ask(table, C)
    assert granted(table.release(A, turn.turn, 0))[0].member == C


def test_a_new_plan_changes_the_order_at_once_and_an_older_one_does_not() -> None:
    table = table_with(A, B, C)
    (turn,) = ask(table, A)
    ask(table, B)
    ask(table, C)
    table.set_plan(A, plan("acb", generation=2), 0)
    table.set_plan(B, plan("abc", generation=1), 0)
    assert granted(table.release(A, turn.turn, 0))[0].member == C


def test_a_member_that_the_plan_does_not_know_comes_last() -> None:
    table = table_with(A, C, D, the_plan=plan("acd"))
    table.join(B, plan("acd"), chunked=True, held=None, now_ns=0)
    assert serve_in_order(table, [A, B, C, D], 8) == "acdbacdb"


def test_a_member_with_rounds_left_goes_before_those_without() -> None:
    weighted = plan("abc", rounds={"b": 2})
    assert serve_in_order(table_with(A, B, C, the_plan=weighted), [A, B, C], 4) == "abcb"


def test_a_cycle_ends_early_when_nobody_with_turns_left_is_ready() -> None:
    table = table_with(A, B, the_plan=plan("ab", rounds={"b": 3}))
    for _ in range(5):
        (turn,) = ask(table, A)
        table.release(A, turn.turn, 0)


def test_groups_that_share_a_device_exclude_each_other_and_take_turns() -> None:
    table = PermitTable(Epoch(1))
    for member, group in ((A, "g"), (B, "g"), (C, "h")):
        table.join(member, plan(group=group), chunked=True, held=None, now_ns=0)
    assert set(serve_in_order(table, [A, B, C], 9)) == {"a", "b", "c"}


def test_a_member_of_several_devices_takes_all_or_none_and_is_not_starved() -> None:
    table = PermitTable(Epoch(1))
    wide, left, right = A, B, C
    for member, devices in ((wide, ("0", "1")), (left, ("0",)), (right, ("1",))):
        table.join(member, plan(devices=devices), chunked=True, held=None, now_ns=0)
    (on_left,) = ask(table, left)
    (on_right,) = ask(table, right)
    assert ask(table, wide) == []
    assert granted(table.release(left, on_left.turn, 0)) == []
    assert ask(table, left) == [], "the wide member keeps what it waits for"
    assert granted(table.release(right, on_right.turn, 0))[0].member == wide


def test_one_primary_and_one_secondary_share_a_half_duplex_link() -> None:
    table = table_with(A, B, C)
    (primary,) = ask(table, A, Phase.PULL)
    (secondary,) = ask(table, B, Phase.PUSH)
    assert ask(table, C, Phase.PULL) == []
    assert (primary.secondary, secondary.secondary) == (False, True)
    assert table.primaries() == (primary.turn, primary.turn)


def test_the_secondary_becomes_the_primary_when_that_one_ends() -> None:
    table = table_with(A, B, C)
    (primary,) = ask(table, A, Phase.PULL, now=0)
    (secondary,) = ask(table, B, Phase.PULL, now=0)
    assert secondary.deadline_ns > primary.deadline_ns
    ask(table, C, Phase.PULL)
    decisions = table.release(A, primary.turn, SECOND)
    assert [type(decision) for decision in decisions] == [Ended, Promoted, Granted]
    assert table.primaries() == (secondary.turn, secondary.turn)
    assert secondary.deadline_ns == SECOND + MINIMUM_LEASE_NANOSECONDS
    assert granted(decisions)[0].secondary


def test_a_member_with_more_rounds_overtakes_the_transfer_of_one_with_fewer() -> None:
    table = table_with(A, B, the_plan=plan("ab", rounds={"b": 2}))
    (long,) = ask(table, A, Phase.PULL)
    assert long.secondary, "it heeds the board from its first chunk"
    assert table.primaries() == (None, None), "and moves at once while nobody overtakes"
    (short,) = ask(table, B, Phase.PULL, now=1)
    assert not short.secondary
    assert table.primaries()[0] == short.turn
    table.release(B, short.turn, 2)
    assert table.primaries() == (None, None)


def test_overtaking_ends_with_the_turns_of_the_cycle() -> None:
    table = table_with(A, B, the_plan=plan("ab", rounds={"b": 2}, network="FullDuplex"))
    ask(table, A, Phase.PULL)
    for _ in range(2):
        (short,) = ask(table, B, Phase.PULL)
        table.release(B, short.turn, 0)
    assert ask(table, B, Phase.PULL) == []


def test_the_lease_of_an_overtaken_transfer_grows() -> None:
    table = table_with(A, B, the_plan=plan("ab", rounds={"b": 2}))
    (long,) = ask(table, A, Phase.PULL)
    before = long.deadline_ns
    ask(table, B, Phase.PULL, now=1)
    assert long.deadline_ns == before + MINIMUM_LEASE_NANOSECONDS


def test_a_full_duplex_link_has_permits_of_its_own_for_each_direction() -> None:
    table = table_with(A, B, C, D, the_plan=plan(network="FullDuplex"))
    (pull,) = ask(table, A, Phase.PULL)
    (push,) = ask(table, B, Phase.PUSH)
    assert not pull.secondary
    assert not push.secondary
    assert ask(table, C, Phase.PULL)[0].secondary
    assert ask(table, D, Phase.PUSH)[0].secondary
    assert table.primaries() == (pull.turn, push.turn)


def test_one_half_duplex_plan_makes_the_node_half_duplex() -> None:
    table = table_with(A, the_plan=plan(network="FullDuplex"), chunked=False)
    table.join(B, plan(group="h"), chunked=False, held=None, now_ns=0)
    assert ask(table, A, Phase.PULL)
    assert ask(table, B, Phase.PUSH) == []
    table.leave(B, 0)
    table.join(C, plan(network="FullDuplex"), chunked=False, held=None, now_ns=0)
    assert ask(table, C, Phase.PUSH)


@pytest.mark.parametrize("who_cannot", [A, B])
def test_no_secondary_beside_or_for_a_transfer_that_ignores_the_board(who_cannot: Member) -> None:
    table = PermitTable(Epoch(1))
    for member in (A, B):
        table.join(member, plan(), chunked=member != who_cannot, held=None, now_ns=0)
    ask(table, A, Phase.PULL)
    assert ask(table, B, Phase.PULL) == []


def test_transfers_run_alone_until_they_are_profiled() -> None:
    table = table_with(A, B, the_plan=plan(network_seconds=0))
    ask(table, A, Phase.PULL)
    assert ask(table, B, Phase.PULL) == []


def test_a_secondary_never_overtakes_one_that_can_only_be_primary() -> None:
    table = PermitTable(Epoch(1))
    for member in (A, B, C):
        table.join(member, plan(), chunked=member != B, held=None, now_ns=0)
    (first,) = ask(table, A, Phase.PULL)
    ask(table, B, Phase.PULL)
    assert ask(table, C, Phase.PULL) == []
    turns = granted(table.release(A, first.turn, 0))
    assert [(turn.member, turn.secondary) for turn in turns] == [(B, False)]


def test_a_hung_holder_loses_its_permit_when_its_lease_ends() -> None:
    table = table_with(A, B)
    (turn,) = ask(table, A, now=0)
    ask(table, B, now=0)
    assert table.expire(MINIMUM_LEASE_NANOSECONDS - 1) == []
    decisions = table.expire(MINIMUM_LEASE_NANOSECONDS)
    assert decisions[0] == Ended(turn, "Lease")
    assert granted(decisions)[0].member == B
    assert table.release(A, turn.turn, 3 * SECOND) == [], "a late release is ignored"
    assert [live.member for live in table.live.values()] == [B]


def test_a_lease_is_ten_times_the_profiled_phase_but_two_seconds_at_least() -> None:
    assert lease_nanoseconds(0) == lease_nanoseconds(0.1) == 2 * SECOND
    table = table_with(A, the_plan=plan(compute_seconds=1.5, network_seconds=0.5))
    assert ask(table, A, Phase.COMP)[0].deadline_ns == 15 * SECOND
    assert ask(table, A, Phase.PULL)[0].deadline_ns == 5 * SECOND


def test_what_a_gone_member_held_is_free_at_once() -> None:
    table = table_with(A, B)
    ask(table, A)
    ask(table, B)
    assert granted(table.leave(A, 0))[0].member == B


def test_a_detached_member_keeps_its_turn_but_gets_no_other() -> None:
    table = table_with(A, B)
    (turn,) = ask(table, A)
    table.detach(A, 0)
    assert ask(table, B) == []
    assert table.request(A, 1, Phase.PULL, 0) == []
    assert granted(table.release(A, turn.turn, 0))[0].member == B


def test_rejoining_with_the_turn_keeps_it_and_without_it_frees_it() -> None:
    table = table_with(A, B)
    (turn,) = ask(table, A)
    ask(table, B)
    table.detach(A, 0)
    assert granted(table.join(A, plan(), chunked=True, held=turn.turn, now_ns=0)) == []
    assert granted(table.join(A, plan(), chunked=True, held=None, now_ns=0))[0].member == B


def test_a_successor_respects_turns_of_the_arbiter_before() -> None:
    (old,) = ask(table_with(A), A)
    table = PermitTable(Epoch(2))
    table.adopt([old])
    for member in (A, B):
        held = old.turn if member == A else None
        table.join(member, plan(), chunked=True, held=held, now_ns=0)
    assert ask(table, B) == []
    assert granted(table.release(A, old.turn, 0))[0].member == B


def test_an_inherited_turn_of_somebody_lost_ends_with_its_lease() -> None:
    (old,) = ask(table_with(A), A)
    table = PermitTable(Epoch(2))
    table.adopt([old])
    table.join(B, plan(), chunked=True, held=None, now_ns=0)
    assert ask(table, B) == []
    assert granted(table.expire(old.deadline_ns))[0].member == B


def test_asking_again_replaces_the_request_and_ends_a_turn_still_held() -> None:
    table = table_with(A, B)
    (first,) = ask(table, A)
    ask(table, B)
    table.request(B, 8, Phase.COMP, 0)
    decisions = table.request(A, 9, Phase.PULL, 0)
    assert decisions[0] == Ended(first, "Release")
    requests = {
        decision.live.member: decision.request
        for decision in decisions
        if isinstance(decision, Granted)
    }
    assert requests == {A: 9, B: 8}


def test_a_withdrawn_request_is_not_served() -> None:
    table = table_with(A, B)
    (turn,) = ask(table, A)
    ask(table, B)
    table.withdraw(B)
    assert granted(table.release(A, turn.turn, 0)) == []


def test_fixed_alternation_waits_for_whoever_is_next_but_not_for_ever() -> None:
    table = table_with(A, B, the_plan=plan(permits="FixedAlternation"))
    (turn,) = ask(table, A)
    table.release(A, turn.turn, 0)
    assert ask(table, A, now=0) == [], "it is b's turn, ready or not"
    (turn,) = ask(table, B)
    assert granted(table.release(B, turn.turn, 0))[0].member == A
    table.release(A, next(iter(table.live)), 0)
    ask(table, A, now=0)
    assert granted(table.expire(MINIMUM_LEASE_NANOSECONDS + 1))[0].member == A


def test_garbage_is_ignored() -> None:
    table = table_with(A)
    (turn,) = ask(table, A)
    assert table.release(B, turn.turn, 0) == []
    assert table.release(A, Turn(12345), 0) == []
    assert table.request(Member("nobody/0"), 1, Phase.COMP, 0) == []
    assert table.leave(Member("nobody/0"), 0) == []
    assert list(table.live) == [turn.turn]
