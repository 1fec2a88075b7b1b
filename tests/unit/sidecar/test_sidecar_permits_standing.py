"""Who is alone at the arbiter need not wait, and nobody suffers from it."""

import pytest
from permit_tables import SECOND, A, B, ask, granted, plan

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import Epoch, Phase, Turn
from harmony_sidecar.decisions import LiveTurn, Recalled
from harmony_sidecar.permits import PermitTable
from harmony_sidecar.standing_leave import RECALL_NANOSECONDS


def alone(*, near: bool = True, the_plan: NodePlan | None = None) -> PermitTable:
    table = PermitTable(Epoch(1))
    table.join(A, the_plan or plan("a"), chunked=True, held=None, now_ns=0, near=near)
    return table


def test_a_member_that_is_alone_at_the_arbiter_gets_a_standing_leave() -> None:
    (pull,) = ask(alone(), A, Phase.PULL)
    assert pull.standing
    assert not ask(alone(near=False), A)[0].standing
    assert not ask(alone(the_plan=plan("ab")), A)[0].standing
    assert not ask(alone(the_plan=plan("a", permits="FixedAlternation")), A)[0].standing


def test_nobody_has_a_standing_leave_beside_a_turn_of_the_arbiter_before() -> None:
    table = PermitTable(Epoch(2))
    table.adopt([LiveTurn(Turn(5), B, Phase.PUSH, frozenset(), SECOND)])
    table.join(A, plan("a"), chunked=True, held=None, now_ns=0, near=True)
    assert not ask(table, A)[0].standing


def test_whoever_joins_a_standing_leave_waits_until_it_is_over() -> None:
    table = alone()
    (turn,) = ask(table, A, Phase.PULL)
    table.release(A, turn.turn, 0)
    assert table.join(B, plan(), chunked=True, held=None, now_ns=10) == [Recalled(A)]
    assert ask(table, B, now=10) == []
    (late,) = ask(table, A, now=20)
    assert (late.member, late.standing) == (A, False)
    table.release(A, late.turn, 30)
    assert granted(table.expire(9 + RECALL_NANOSECONDS)) == []
    assert [live.member for live in granted(table.expire(10 + RECALL_NANOSECONDS))] == [B]


def test_a_transfer_that_began_by_a_standing_leave_gets_no_company() -> None:
    """It does not know its turn, so the board cannot show when it moves."""
    table = alone()
    (pull,) = ask(table, A, Phase.PULL)
    table.join(B, plan(generation=2), chunked=True, held=None, now_ns=0)
    ask(table, B, Phase.PULL, now=0)
    assert granted(table.expire(RECALL_NANOSECONDS)) == []
    (after,) = granted(table.release(A, pull.turn, RECALL_NANOSECONDS))
    assert (after.member, after.secondary) == (B, False)


@pytest.mark.parametrize("goes", ["detaches", "joins anew"])
def test_a_standing_leave_is_recalled_when_the_way_to_its_member_changes(goes: str) -> None:
    table = alone()
    (turn,) = ask(table, A)
    if goes == "detaches":
        decisions = table.detach(A, 1)
    else:
        decisions = table.join(A, plan("a"), chunked=True, held=None, now_ns=1)
    assert Recalled(A) in decisions
    table.release(A, turn.turn, 1)
    table.join(B, plan("ab"), chunked=True, held=None, now_ns=1)
    assert ask(table, B, now=RECALL_NANOSECONDS) == [], "the worker may not have heard of it"
    assert granted(table.expire(1 + RECALL_NANOSECONDS))[0].member == B


def test_a_new_plan_ends_a_standing_leave() -> None:
    table = alone()
    ask(table, A)
    assert table.set_plan(A, plan("ab", generation=2), 1) == [Recalled(A)]
    assert not ask(table, A, now=2)[0].standing


def test_a_standing_leave_ends_with_its_member() -> None:
    table = alone()
    ask(table, A)
    table.leave(A, 1)
    table.join(B, plan("b"), chunked=True, held=None, now_ns=1)
    assert [live.member for live in ask(table, B, now=1)] == [B]
