"""Whatever members do in whatever order: what the permit table promises, it keeps."""

import pickle
from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.worker_protocol import Epoch, Phase, Turn
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import Decision, Ended, Granted, Overtaken, Promoted, Recalled
from harmony_sidecar.permits import PermitTable
from harmony_sidecar.standing_leave import RECALL_NANOSECONDS

NAMES = [Member(f"{job}/0") for job in "abcde"]
DEVICES = ["0", "1", "2"]
PHASES = [Phase.PULL, Phase.COMP, Phase.PUSH]

names = st.sampled_from(NAMES)
device_sets = st.sets(st.sampled_from(DEVICES), min_size=1)


@st.composite
def plans(draw: st.DrawFn, network: str) -> NodePlan:
    listed = draw(st.permutations(NAMES))[draw(st.sampled_from([0, 0, 0, 2, 5])) :]
    network_seconds = draw(st.sampled_from([0, 0.01, 0.01, 1]))
    members = tuple(
        PlannedMember(
            job=name.partition("/")[0],
            worker=0,
            order=order,
            rounds=draw(st.integers(1, 3)),
            compute_seconds=draw(st.sampled_from([0, 0.01, 1])),
            network_seconds=network_seconds,
        )
        for order, name in enumerate(listed)
    )
    return NodePlan(
        group=draw(st.sampled_from(["g", "g", "h"])),
        generation=draw(st.integers(0, 5)),
        devices=tuple(draw(device_sets)),
        members=members,
        network=network,
        permits=draw(st.sampled_from(["Cyclic", "Cyclic", "FixedAlternation"])),
    )


class PermitsKeepTheirPromises(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.table = PermitTable(Epoch(3))
        self.now = 0
        self.network = "HalfDuplex"
        self.joined: set[Member] = set()
        self.waiting: dict[Member, int] = {}
        self.holding: dict[Member, Turn] = {}
        self.requests = 0
        self.seen: set[Turn] = set()
        self.standing: Member | None = None
        self.standing_until: float = 0

    def follow(self, decisions: list[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Recalled):
                assert decision.member == self.standing
                self.standing_until = self.now + RECALL_NANOSECONDS
                continue
            live = decision.live
            if isinstance(decision, Granted):
                assert self.now >= self.standing_until or live.member == self.standing
                if live.standing:
                    self.standing, self.standing_until = live.member, float("inf")
                assert self.waiting.pop(live.member) == decision.request
                assert live.member not in self.holding
                assert live.turn not in self.seen
                self.seen.add(live.turn)
                self.holding[live.member] = live.turn
            elif isinstance(decision, Ended):
                assert self.holding.pop(live.member) == live.turn
            else:
                assert isinstance(decision, Promoted | Overtaken)
                assert self.holding[live.member] == live.turn

    @initialize(network=st.sampled_from(["HalfDuplex", "FullDuplex"]), data=st.data())
    def begin_with_a_group(self, network: str, data: st.DataObject) -> None:
        self.network = network
        plan = data.draw(plans(network))
        for name in NAMES:
            self.joined.add(name)
            chunked = data.draw(st.sampled_from([True, True, True, False]))
            self.follow(self.table.join(name, plan, chunked=chunked, held=None, now_ns=0))

    @rule(name=names, chunked=st.booleans(), keeps=st.booleans(), data=st.data())
    def join(self, name: Member, chunked: bool, keeps: bool, data: st.DataObject) -> None:
        self.joined.add(name)
        self.waiting.pop(name, None)
        held = self.holding.get(name) if keeps else None
        plan = data.draw(plans(self.network))
        self.follow(
            self.table.join(
                name, plan, chunked=chunked, held=held, now_ns=self.now, near=name == NAMES[0]
            )
        )

    @rule(data=st.data())
    def stay_alone_at_the_arbiter(self, data: st.DataObject) -> None:
        for name in NAMES[1:]:
            self.leave(name)
        self.join(NAMES[0], True, True, data)

    @rule(name=names, data=st.data())
    def replan(self, name: Member, data: st.DataObject) -> None:
        self.follow(self.table.set_plan(name, data.draw(plans(self.network)), self.now))

    @rule(name=names)
    def leave(self, name: Member) -> None:
        self.joined.discard(name)
        self.waiting.pop(name, None)
        if name == self.standing:
            self.standing, self.standing_until = None, 0
        self.follow(self.table.leave(name, self.now))
        assert name not in self.holding

    @rule(name=names)
    def lose_the_sidecar(self, name: Member) -> None:
        self.joined.discard(name)
        self.waiting.pop(name, None)
        self.follow(self.table.detach(name, self.now))

    @precondition(lambda self: self.joined)
    @rule(data=st.data(), phase=st.sampled_from(PHASES))
    def ask(self, data: st.DataObject, phase: Phase) -> None:
        self.ask_for(data.draw(st.sampled_from(sorted(self.joined))), phase)

    @rule(phases=st.lists(st.sampled_from(PHASES), min_size=len(NAMES), max_size=len(NAMES)))
    def all_idle_ask(self, phases: list[Phase]) -> None:
        for name, phase in zip(NAMES, phases, strict=True):
            if name in self.joined and name not in self.holding:
                self.ask_for(name, phase)

    def ask_for(self, name: Member, phase: Phase) -> None:
        self.requests += 1
        self.waiting[name] = self.requests
        self.follow(self.table.request(name, self.requests, phase, self.now))

    @rule()
    def all_release(self) -> None:
        for name, turn in list(self.holding.items()):
            self.follow(self.table.release(name, turn, self.now))

    @precondition(lambda self: self.holding)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.holding)))
        self.follow(self.table.release(name, self.holding[name], self.now))
        assert name not in self.holding or self.holding[name] in self.table.live

    @rule(name=names, turn=st.integers(0, 2**64 - 1))
    def release_garbage(self, name: Member, turn: int) -> None:
        if self.holding.get(name) == turn:
            return
        before = pickle.dumps(self.table)
        assert self.table.release(name, Turn(turn), self.now) == []
        assert pickle.dumps(self.table) == before

    @rule(seconds=st.sampled_from([0.5, 1, 3, 20]))
    def pass_time(self, seconds: float) -> None:
        self.now += int(seconds * 1e9)
        self.follow(self.table.expire(self.now))

    @invariant()
    def devices_are_never_shared(self) -> None:
        used = Counter(device for live in self.table.live.values() for device in live.devices)
        assert not used or max(used.values()) == 1

    @invariant()
    def links_never_exceed_their_permits(self) -> None:
        links = [PHASES[::2]] if self.network == "HalfDuplex" else [[PHASES[0]], [PHASES[2]]]
        for link in links:
            secondary = [t.secondary for t in self.table.live.values() if t.phase in link]
            assert len(secondary) <= 2
            assert secondary.count(False) <= 1
            yielding = [t for t in self.table.live.values() if t.phase in link and t.yields]
            assert secondary.count(False) == 1 or len(yielding) == len(secondary) <= 1

    @invariant()
    def the_table_agrees_with_what_it_decided(self) -> None:
        assert set(self.table.live) == set(self.holding.values())

    def teardown(self) -> None:
        """Every ready member is served in the end, whether holders release or hang."""
        for _ in range(4 * len(NAMES)):
            if not self.waiting:
                break
            self.now += 100 * 10**9
            self.follow(self.table.expire(self.now))
        assert not self.waiting


TestPermits = PermitsKeepTheirPromises.TestCase
TestPermits.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
