"""The rules of rounds, against workers that crash, repeat themselves and race."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from harmony_worker.parameter_server.rounds import Rounds, RoundsError, Update


def test_an_update_waits_for_every_worker_and_sums_in_worker_order() -> None:
    rounds = Rounds(workers=3)
    for worker in (2, 0, 1):
        rounds.complete_push(worker, 0)
    assert rounds.commit(2, 1) == []
    assert rounds.commit(0, 1) == []
    assert not rounds.is_ready(1)
    assert rounds.commit(1, 1) == [Update((0, 1, 2), 3)]
    assert rounds.is_ready(1)


def test_a_push_that_is_not_committed_everywhere_changes_nothing() -> None:
    rounds = Rounds(workers=1)
    rounds.complete_push(0, 0)
    assert rounds.version == 0
    assert not rounds.is_new(0, 0)


def test_a_commit_of_bytes_that_never_came_is_an_error() -> None:
    with pytest.raises(RoundsError, match="has completed 0 pushes"):
        Rounds(workers=1).commit(0, 1)


def test_a_push_ahead_of_its_turn_is_an_error() -> None:
    with pytest.raises(RoundsError, match="pushes iteration 1"):
        Rounds(workers=1).is_new(0, 1)


def test_a_push_before_the_update_that_it_needs_is_an_error() -> None:
    rounds = Rounds(workers=2)
    rounds.complete_push(0, 0)
    rounds.commit(0, 1)
    with pytest.raises(RoundsError, match="parameters are at 0"):
        rounds.is_new(0, 1)


def test_nobody_waits_for_a_worker_that_finished_early() -> None:
    rounds = Rounds(workers=2)
    rounds.complete_push(0, 0)
    rounds.commit(0, 1)
    assert rounds.finish(1) == [Update((0,), 1)]
    assert rounds.is_ready(1)


def test_a_stop_reaches_every_worker_at_one_iteration_and_is_then_spent() -> None:
    rounds = Rounds(workers=2)
    rounds.complete_push(0, 0)
    rounds.request_stop()
    assert rounds.stop_at == 1
    assert rounds.told(0, 1) == 1
    assert rounds.told(1, 1) == 1
    assert rounds.told(0, 1) is None


def test_a_stale_word_of_a_snapshot_is_ignored() -> None:
    rounds = Rounds(workers=1)
    rounds.hear_snapshot(0)
    assert rounds.snapshot_at is None
    rounds.hear_snapshot(1)
    rounds.complete_push(0, 0)
    rounds.commit(0, 1)
    assert rounds.snapshot_due
    rounds.snapshot_taken()
    rounds.hear_snapshot(1)
    assert rounds.snapshot_at is None


class Job(RuleBasedStateMachine):
    """Servers and workers of one job in one loop: what each may do next, in any order.

    A worker is at `at[w]`, either before its SYNC (computing is False) or after it. Server 0
    decides on snapshots, and the workers carry its word, as over the wire.
    """

    @initialize(workers=st.integers(1, 3), staleness=st.integers(0, 3), servers=st.integers(1, 3))
    def begin(self, workers: int, staleness: int, servers: int) -> None:
        self.workers, self.staleness = workers, staleness
        self.servers = [Rounds(workers, staleness) for _ in range(servers)]
        self.at = [0] * workers
        self.computing = [False] * workers
        self.word: list[int | None] = [None] * workers
        """What the requests carry: as server 0 answered the last SYNC that is complete."""
        self.heard: list[int | None] = [None] * workers
        self.replaced = False
        self.wanted = False
        self.snapshots: list[dict[int, list[int]]] = [{} for _ in range(servers)]
        self.applied: list[list[tuple[int, int]]] = [[] for _ in range(servers)]
        self.replies: list[set[int]] = [set() for _ in range(workers)]

    def take_snapshot_if_due(self, server: int) -> None:
        rounds = self.servers[server]
        if rounds.snapshot_due and rounds.snapshot_at is not None:
            self.snapshots[server][rounds.snapshot_at] = list(rounds.committed)
            rounds.snapshot_taken()

    @rule(worker=st.integers(0, 2), server=st.integers(0, 2))
    def sync_on_one_server(self, worker: int, server: int) -> None:
        worker %= self.workers
        server %= len(self.servers)
        if self.computing[worker] or server in self.replies[worker]:
            return
        rounds, iteration = self.servers[server], self.at[worker]
        word = self.word[worker]
        if word is not None:
            rounds.hear_snapshot(word)
            self.take_snapshot_if_due(server)
        if not rounds.may_commit(iteration):
            return
        for update in rounds.commit(worker, iteration):
            self.applied[server] += [(each, rounds.committed[each] - 1) for each in update.workers]
        self.take_snapshot_if_due(server)
        if server == 0 and self.wanted:
            self.wanted = False
            rounds.request_snapshot()
        if not rounds.is_ready(iteration):
            return
        if server == 0:
            self.heard[worker] = rounds.snapshot_at
        self.replies[worker].add(server)
        if len(self.replies[worker]) == len(self.servers):
            self.replies[worker] = set()
            self.word[worker] = self.heard[worker]
            self.computing[worker] = True

    @rule(worker=st.integers(0, 2), servers=st.integers(0, 3))
    def push_and_perhaps_crash(self, worker: int, servers: int) -> None:
        """Push to some of the servers and crash, or to all and go on."""
        worker %= self.workers
        if not self.computing[worker]:
            return
        for rounds in self.servers[:servers]:
            if rounds.is_new(worker, self.at[worker]):
                rounds.complete_push(worker, self.at[worker])
        self.computing[worker] = False
        if servers < len(self.servers):
            self.replace(worker)
        else:
            self.at[worker] += 1

    @rule(worker=st.integers(0, 2))
    def replace(self, worker: int) -> None:
        worker %= self.workers
        self.at[worker] = min(rounds.pushed[worker] for rounds in self.servers)
        self.computing[worker] = False
        self.replies[worker] = set()
        self.word[worker] = None
        self.replaced = True

    @rule()
    def want_a_snapshot(self) -> None:
        self.wanted = True

    @precondition(lambda self: hasattr(self, "servers"))
    @invariant()
    def no_worker_computes_beyond_the_staleness_bound(self) -> None:
        slowest = min(self.at)
        for worker in range(self.workers):
            if self.computing[worker]:
                assert self.at[worker] - slowest <= self.staleness

    @precondition(lambda self: hasattr(self, "servers"))
    @invariant()
    def every_gradient_is_applied_once_and_in_its_workers_order(self) -> None:
        for applied in self.applied:
            for worker in range(self.workers):
                mine = [iteration for each, iteration in applied if each == worker]
                assert mine == list(range(len(mine)))

    @precondition(lambda self: hasattr(self, "servers"))
    @invariant()
    def a_snapshot_holds_exactly_what_lies_below_its_iteration(self) -> None:
        for snapshots in self.snapshots:
            for iteration, committed in snapshots.items():
                assert committed == [iteration] * self.workers

    def teardown(self) -> None:
        """Nothing is stuck: workers that go on get everywhere.

        So do snapshots, unless a worker was lost that had told one server of them.
        """
        if not hasattr(self, "servers"):
            return
        goal = max(self.at) + 5
        for _ in range(10 * goal * self.workers * len(self.servers)):
            for worker in range(self.workers):
                for server in range(len(self.servers)):
                    if self.at[worker] < goal:
                        self.sync_on_one_server(worker, server)
                if self.at[worker] < goal:
                    self.push_and_perhaps_crash(worker, len(self.servers))
        assert self.at == [goal] * self.workers
        for later in self.snapshots[1:]:
            complete = {each for each in self.snapshots[0] if each < goal - 1}
            assert self.replaced or complete <= set(later)


TestJob = Job.TestCase


@given(st.lists(st.integers(0, 2), max_size=60), st.integers(0, 4))
def test_a_worker_is_never_more_than_staleness_ahead(order: list[int], staleness: int) -> None:
    rounds = Rounds(workers=3, staleness=staleness)
    for worker in order:
        iteration = rounds.committed[worker]
        if rounds.is_ready(iteration):
            rounds.complete_push(worker, iteration)
            rounds.commit(worker, iteration + 1)
        assert max(rounds.committed) - min(rounds.committed) <= staleness + 1
