"""Recorded turns: the ring that keeps them, the profile made of them, the checks upon them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_api.sidecar_state import PhaseName, TurnRecord
from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from harmony_api.worker_protocol import Phase
from harmony_sidecar.phase_profile import MINIMUM_ITERATIONS, WARM_UP_ITERATIONS, PhaseProfile
from harmony_sidecar.turn_ring import CAPACITY, PAGE_RECORDS, PastTurn, TurnRing

MILLISECOND = 1_000_000


def past(phase: Phase, milliseconds: int, **changes: object) -> PastTurn:
    return PastTurn(phase, 0, 1, 1, 0, 0, milliseconds * MILLISECOND)._replace(**changes)


def record(
    phase: PhaseName, turn: int, start: int, end: int, secondary: bool = False
) -> TurnRecord:
    return TurnRecord(
        sequence=1,
        phase=phase,
        iteration=0,
        turn=turn,
        epoch=1,
        requested_ns=0,
        start_ns=start,
        end_ns=end,
        secondary=secondary,
    )


def test_a_full_ring_loses_the_oldest_and_says_how_many() -> None:
    ring = TurnRing()
    for iteration in range(CAPACITY + 10):
        ring.append(past(Phase.COMP, 1, iteration=iteration))
    page = ring.page(after=4)
    assert page.lost == 6
    assert len(page.turns) == PAGE_RECORDS
    assert (page.turns[0].sequence, page.turns[0].iteration) == (11, 10)
    assert page.next_sequence == page.turns[-1].sequence
    end = ring.page(after=CAPACITY + 10)
    assert (end.turns, end.next_sequence, end.lost) == ([], CAPACITY + 10, 0)


def test_a_reader_that_is_ahead_learns_that_the_ring_is_new() -> None:
    ring = TurnRing()
    ring.append(past(Phase.COMP, 1))
    assert ring.page(after=500).next_sequence == 1


@given(
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
    st.booleans(),
    st.integers(0, 3 * MILLISECOND),
)
def test_a_turn_comes_back_as_it_was_kept(
    turn: int, moved: int, secondary: bool, paused_ns: int
) -> None:
    ring = TurnRing()
    kept = past(
        Phase.PUSH, 3, turn=turn, bytes_moved=moved, secondary=secondary, paused_ns=paused_ns
    )
    ring.append(kept._replace(ended_by="Lease"))
    (found,) = ring.page(0).turns
    assert (found.turn, found.bytes, found.secondary) == (turn, moved, secondary)
    assert found.paused_ns == paused_ns
    assert (found.phase, found.ended_by) == ("PUSH", "Lease")
    assert found == TurnRecord.model_validate_json(found.model_dump_json(by_alias=True))


def iterations(profile: PhaseProfile, count: int, pull: int, **changes: object) -> None:
    for _ in range(count):
        profile.add(past(Phase.SYNC, 50, update_ns=7 * MILLISECOND))
        profile.add(past(Phase.PULL, pull, **changes))
        profile.add(past(Phase.COMP, 20))
        profile.add(past(Phase.PUSH, 5))


def test_the_profile_leaves_the_first_iterations_of_a_worker_out() -> None:
    profile = PhaseProfile()
    iterations(profile, WARM_UP_ITERATIONS + MINIMUM_ITERATIONS - 1, pull=10)
    assert profile.typical() is None
    iterations(profile, 1, pull=10)
    typical = profile.typical()
    assert typical is not None
    assert typical.iterations == MINIMUM_ITERATIONS
    assert typical.iteration_seconds == pytest.approx(0.007 + 0.010 + 0.020 + 0.005)


def test_one_slow_iteration_does_not_move_the_profile() -> None:
    profile = PhaseProfile()
    iterations(profile, 10, pull=10)
    iterations(profile, 1, pull=9000)
    typical = profile.typical()
    assert typical is not None
    assert typical.pull_microseconds == 10_000


def test_transfers_that_were_secondary_count_only_for_want_of_others() -> None:
    profile = PhaseProfile()
    iterations(profile, 10, pull=30, secondary=True)
    typical = profile.typical()
    assert typical is not None
    assert typical.pull_microseconds == 30_000
    iterations(profile, 1, pull=10)
    typical = profile.typical()
    assert typical is not None
    assert typical.pull_microseconds == 10_000


def test_the_time_for_which_a_secondary_stood_aside_is_no_cost() -> None:
    profile = PhaseProfile()
    iterations(profile, 10, pull=30, secondary=True, paused_ns=12 * MILLISECOND)
    typical = profile.typical()
    assert typical is not None
    assert typical.pull_microseconds == 18_000


def test_turns_that_touch_are_in_order_and_turns_that_overlap_are_found() -> None:
    first, second = record("COMP", 1, 0, 10), record("COMP", 2, 10, 20)
    assert overlapping_compute_turns([second, first]) == []
    late = record("COMP", 3, 19, 30)
    assert overlapping_compute_turns([late, first, second]) == [(second, late)]
    assert overlapping_compute_turns([second, record("COMP", 0, 5, 15)]) == []


def test_one_secondary_may_run_beside_the_primary_of_a_link() -> None:
    primary = record("PULL", 1, 0, 10)
    secondary = record("PUSH", 2, 5, 15, secondary=True)
    overtaking = record("PUSH", 3, 12, 20)
    assert excessive_network_turns([primary, overtaking, secondary]) == []
    second_primary = record("PUSH", 4, 19, 30)
    assert excessive_network_turns([second_primary, primary, overtaking, secondary]) == [
        (overtaking, second_primary)
    ]
    assert excessive_network_turns([primary, record("PUSH", 4, 5, 9)], "FullDuplex") == []


def test_three_transfers_on_a_link_are_one_too_many() -> None:
    turns = [record("PULL", turn, turn, 20, secondary=turn > 1) for turn in (1, 2, 3)]
    assert excessive_network_turns(turns[:2]) == []
    assert excessive_network_turns(turns) == [(turns[0], turns[2]), (turns[1], turns[2])]
