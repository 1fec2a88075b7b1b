"""Whose turn it is in a group: cyclic order, weighted by rounds, skipping whoever is not ready.

In a cycle each member has so many turns. The next is the first ready member after the last
holder that has turns left; where no ready member has any, a new cycle begins. So nobody
waits for one that is not ready, and nobody that is ready is passed over for ever.
"""

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, NewType

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import Phase, Turn

Member = NewType("Member", str)
"""`job/worker`: one worker of one job on this node."""
Resource = Literal["COMP", "NET", "PULL", "PUSH"]
"""What is shared: computing, the one link, or one direction of it."""

MINIMUM_LEASE_NANOSECONDS: Final = 2_000_000_000
LEASE_OVER_PROFILE: Final = 10
_UNKNOWN_ORDER: Final = 1 << 31


def lease_nanoseconds(profiled_seconds: float) -> int:
    """Return how long a turn may last: max(2 s, 10 x the profiled phase)."""
    return max(MINIMUM_LEASE_NANOSECONDS, round(LEASE_OVER_PROFILE * profiled_seconds * 1e9))


@dataclass(slots=True)
class Pending:
    """A request that waits; `sequence` tells who asked first."""

    sequence: int
    request: int
    phase: Phase
    since_ns: int


@dataclass(slots=True)
class GroupMember:
    """A worker that takes part."""

    name: Member
    chunked: bool
    group: str
    devices: frozenset[str]
    key: tuple[int, str] = (_UNKNOWN_ORDER, "")
    """Place in the cyclic order; one that the plan does not know comes last."""
    rounds: int = 1
    compute_lease_ns: int = MINIMUM_LEASE_NANOSECONDS
    network_lease_ns: int = MINIMUM_LEASE_NANOSECONDS
    network_profiled: bool = False
    near: bool = False
    """Its sidecar is the arbiter."""
    yields: bool = False
    """Members of its group have more rounds, and overtake it on the link."""
    pending: Pending | None = None
    turn: Turn | None = None


class Candidate(NamedTuple):
    """A ready member, and whether it has turns left in this cycle."""

    member: GroupMember
    has_turns_left: bool


@dataclass(slots=True)
class _Cycle:
    last: tuple[int, str] = (-1, "")
    """Place of the last holder."""
    taken: dict[Member, int] = field(default_factory=dict)

    def has_turns_left(self, member: GroupMember, resource: Resource) -> bool:
        # An iteration has two transfers, which share a half-duplex link.
        turns = 2 * member.rounds if resource == "NET" else member.rounds
        return self.taken.get(member.name, 0) < turns

    def after_last(self, members: list[GroupMember]) -> list[GroupMember]:
        start = bisect_right(members, self.last, key=lambda member: member.key)
        return members[start:] + members[:start]


class Group:
    """The joined members of one group, and where each resource stands in its cycle."""

    def __init__(self, plan: NodePlan) -> None:
        self.plan = plan
        self.members: list[GroupMember] = []
        """In cyclic order."""
        self._cycles: defaultdict[Resource, _Cycle] = defaultdict(_Cycle)

    def add(self, member: GroupMember, plan: NodePlan) -> None:
        """Let a member in, with its plan; the plan of the highest generation counts."""
        if plan.generation >= self.plan.generation:
            self.plan = plan
        self.members.append(member)
        planned = {f"{entry.job}/{entry.worker}": entry for entry in self.plan.members}
        for each in self.members:
            entry = planned.get(each.name)
            compute, network = (entry.compute_seconds, entry.network_seconds) if entry else (0, 0)
            each.key = (entry.order if entry else _UNKNOWN_ORDER, each.name)
            each.rounds = entry.rounds if entry else 1
            each.compute_lease_ns = lease_nanoseconds(compute)
            each.network_lease_ns = lease_nanoseconds(network)
            each.network_profiled = network > 0
        able = [each for each in self.members if each.chunked and each.network_profiled]
        most_rounds = max((each.rounds for each in able), default=0)
        for each in self.members:
            each.yields = each in able and each.rounds < most_rounds
        self.members.sort(key=lambda each: each.key)

    def candidates(
        self, resource: Resource, phases: tuple[Phase, ...], now_ns: int
    ) -> list[Candidate]:
        """Return the ready members, the next to serve first, those with turns left ahead.

        With FixedAlternation, nobody but whoever is next may compute. NET permits follow the
        cyclic order there too: making transfers wait would only idle the link.
        """
        ready = [
            member
            for member in self.members
            if member.pending is not None and member.pending.phase in phases
        ]
        if not ready:
            return []
        cycle = self._cycles[resource]
        if resource == "COMP" and self.plan.permits == "FixedAlternation":
            return self._strictly_next(ready, cycle, now_ns)
        if len(ready) > 1:
            ready = cycle.after_last(ready)
        found = [Candidate(member, cycle.has_turns_left(member, resource)) for member in ready]
        found.sort(key=lambda candidate: not candidate.has_turns_left)
        return found

    def take(self, member: GroupMember, resource: Resource, *, new_cycle: bool) -> None:
        """Count a turn; `new_cycle`: a member without turns left begins the next cycle."""
        cycle = self._cycles[resource]
        if new_cycle and not cycle.has_turns_left(member, resource):
            cycle.taken.clear()
        cycle.taken[member.name] = cycle.taken.get(member.name, 0) + 1
        cycle.last = member.key

    def _strictly_next(
        self, ready: list[GroupMember], cycle: _Cycle, now_ns: int
    ) -> list[Candidate]:
        """Whoever is next, ready or not; its lease bounds how long the others wait for it."""
        expected = cycle.after_last(self.members)[0]
        first = cycle.after_last(ready)[0]
        waited_ns = max(now_ns - each.pending.since_ns for each in ready if each.pending)
        if first is expected or waited_ns > expected.compute_lease_ns:
            return [Candidate(first, True)]
        return []
