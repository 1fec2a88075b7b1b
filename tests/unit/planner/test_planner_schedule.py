from dataclasses import replace

import pytest
from arbiter_replay import replay
from hypothesis import given, settings
from hypothesis import strategies as st
from planner_examples import iterations, phases

from harmony_planner.schedule import Iteration, iteration_seconds
from harmony_planner.snapshot import Network

networks = st.sampled_from(["HalfDuplex", "FullDuplex"])


def seconds(members: list[Iteration], network: Network = "HalfDuplex") -> list[float]:
    return iteration_seconds(members, network)


def test_alone_an_iteration_takes_the_sum_of_its_phases() -> None:
    assert seconds([phases(80, 30, 20, 10)]) == pytest.approx([0.14])


@pytest.mark.parametrize("network", ["HalfDuplex", "FullDuplex"])
def test_a_balanced_pair_interleaves_without_a_gap(network: Network) -> None:
    assert seconds([phases(100, 45, 45, 10)] * 2, network) == pytest.approx([0.2, 0.2])


def test_a_compute_heavy_pair_is_limited_by_its_device() -> None:
    assert seconds([phases(150, 25, 25)] * 2) == pytest.approx([0.3, 0.3])


def test_a_network_heavy_pair_is_limited_by_a_half_duplex_link_only() -> None:
    pair = [phases(60, 70, 70)] * 2
    assert seconds(pair, "HalfDuplex") == pytest.approx([0.28, 0.28])
    assert seconds(pair, "FullDuplex") == pytest.approx([0.2, 0.2])


def test_with_equal_rounds_a_short_member_falls_into_step_with_a_long_one() -> None:
    assert seconds([phases(80, 60, 60), phases(30, 25, 25)], "FullDuplex") == pytest.approx(
        [0.2, 0.2]
    )


def test_a_member_with_more_rounds_overtakes_on_the_link() -> None:
    long, short = phases(20, 60, 60), phases(40, 20, 20, rounds=2)
    assert seconds([long, short], "FullDuplex") == pytest.approx([0.16, 0.08], rel=0.01)


def test_updates_share_the_core_that_the_servers_share() -> None:
    pair = [phases(5, 5, 5, 50)] * 2
    assert iteration_seconds(pair, "FullDuplex", servers_share_core=True) == pytest.approx(
        [0.11, 0.11]
    )
    assert max(iteration_seconds(pair, "FullDuplex", servers_share_core=False)) < 0.08


def test_workers_on_one_node_take_turns_on_its_link_and_wait_for_each_other() -> None:
    [alone] = seconds([phases(100, 20, 20, workers=2)])
    assert 0.14 < alone <= 0.18


def test_a_member_a_thousand_times_longer_does_not_hang_the_run() -> None:
    long, short = seconds([phases(60_000, 1, 1), phases(1, 0, 1)], "FullDuplex")
    assert long >= short > 0


@settings(max_examples=60, deadline=None)
@given(st.lists(iterations, min_size=1, max_size=4), networks, st.booleans())
def test_nobody_is_faster_than_alone_and_no_resource_is_used_twice(
    members: list[Iteration], network: Network, share: bool
) -> None:
    shared = iteration_seconds(members, network, servers_share_core=share)
    rates = [1 / each for each in shared]
    loads = list(zip(rates, members, strict=True))
    for rate, member in loads:
        total = member.compute_seconds + member.pull_seconds + member.push_seconds
        assert rate * (total + member.update_seconds) <= 1.05
    assert sum(rate * member.compute_seconds for rate, member in loads) <= 1.05
    pull = sum(rate * member.workers * member.pull_seconds for rate, member in loads)
    push = sum(rate * member.workers * member.push_seconds for rate, member in loads)
    update = sum(rate * member.update_seconds for rate, member in loads)
    if network == "HalfDuplex":
        assert pull + push + update <= 1.05
    else:
        assert max(pull, push) <= 1.05
        assert not share or update <= 1.05


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(phases, st.integers(5, 150), st.integers(5, 80), st.integers(5, 80)),
        min_size=2,
        max_size=4,
    ),
    networks,
)
def test_the_schedule_follows_the_arbiters_own_permit_table(
    members: list[Iteration], network: Network
) -> None:
    # Phases that end at the same instant may be served in either order; so none do.
    distinct = [
        replace(
            member,
            compute_seconds=member.compute_seconds + 1.31e-6 * (index + 1),
            pull_seconds=member.pull_seconds + 0.73e-6 * (2 * index + 1),
            push_seconds=member.push_seconds + 0.47e-6 * (3 * index + 1),
        )
        for index, member in enumerate(members)
    ]
    expected = replay(distinct, network, iterations=60, warm_up=20)
    assert iteration_seconds(distinct, network) == pytest.approx(expected, rel=0.05)
