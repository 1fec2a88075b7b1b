"""Who may run which phase: the rules of a node's permits, with no clock and no socket.

The arbiter is this table and the I/O around it. Time is passed in, and every call returns the
decisions it led to, so that the rules can be tested by themselves.

Invariants, whatever the calls: no two live COMP turns share a device; a link carries at most
one primary and one secondary NET turn; a member holds at most one turn; every ready member
is served in the end, because leases end and the walk below puts nobody behind for ever.

COMP is keyed by device. NET is keyed by link: the node's one link where a plan says
HalfDuplex, else one link for each direction.
"""

from collections.abc import Iterable
from typing import Final

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import Epoch, Phase, Turn
from harmony_sidecar.cyclic_order import (
    MINIMUM_LEASE_NANOSECONDS,
    Candidate,
    Group,
    GroupMember,
    Member,
    Pending,
    Resource,
)
from harmony_sidecar.decisions import (
    Decision,
    EndCause,
    Ended,
    Granted,
    LiveTurn,
    Overtaken,
    Promoted,
)
from harmony_sidecar.standing_leave import StandingLeave

_ONE_LINK: Final[dict[Resource, tuple[Phase, ...]]] = {"NET": (Phase.PULL, Phase.PUSH)}
_TWO_LINKS: Final[dict[Resource, tuple[Phase, ...]]] = {
    "PULL": (Phase.PULL,),
    "PUSH": (Phase.PUSH,),
}


class PermitTable:
    """The permits of one node under one arbiter."""

    def __init__(self, epoch: Epoch) -> None:
        self.live: dict[Turn, LiveTurn] = {}
        """Turns that are out, oldest first. To be read only."""
        self._next_turn = epoch << 32
        self._next_sequence = 0
        self._members: dict[Member, GroupMember] = {}
        self._groups: dict[str, Group] = {}
        self._links = _ONE_LINK
        self._leave = StandingLeave()

    def adopt(self, turns: Iterable[LiveTurn]) -> None:
        """Respect turns of the arbiter before: they hold until released, or until their lease."""
        for live in turns:
            self.live[live.turn] = live

    def join(
        self,
        name: Member,
        plan: NodePlan,
        *,
        chunked: bool,
        held: Turn | None,
        now_ns: int,
        near: bool = False,
    ) -> list[Decision]:
        """A worker is there, and holds `held` or nothing; other turns of its name end.

        `near`: its sidecar is the arbiter, so it may get a standing leave.
        """
        decisions: list[Decision] = [*self._leave.recall(now_ns)]
        for live in [turn for turn in self.live.values() if turn.member == name]:
            if live.turn != held:
                self._end(live, "Release", decisions)
        self._forget(name)
        member = GroupMember(name, chunked, plan.group, frozenset(plan.devices), near=near)
        if held in self.live and self.live[held].member == name:
            member.turn = held
        self._members[name] = member
        self._enter_group(member, plan)
        return self._settle(decisions, now_ns)

    def set_plan(self, name: Member, plan: NodePlan, now_ns: int) -> list[Decision]:
        """Replace a member's plan; of a group's plans the highest generation counts."""
        member = self._members.get(name)
        if member is None:
            return []
        self._leave_group(member)
        member.group, member.devices = plan.group, frozenset(plan.devices)
        self._enter_group(member, plan)
        return self._settle([*self._leave.recall(now_ns)], now_ns)

    def leave(self, name: Member, now_ns: int, cause: EndCause = "Disconnect") -> list[Decision]:
        """A worker is gone: what it held is free at once."""
        self._forget(name)
        self._leave.forget(name)
        decisions: list[Decision] = []
        for live in [turn for turn in self.live.values() if turn.member == name]:
            self._end(live, cause, decisions)
        return self._settle(decisions, now_ns)

    def detach(self, name: Member, now_ns: int) -> list[Decision]:
        """Nobody speaks for the worker just now: it asks for nothing, and keeps what it holds."""
        self._forget(name)
        return self._settle([*self._leave.recall(now_ns)], now_ns)

    def request(self, name: Member, request: int, phase: Phase, now_ns: int) -> list[Decision]:
        """Ask for a permit; it replaces an earlier request, and ends a turn still held."""
        member = self._members.get(name)
        if member is None:
            return []
        decisions: list[Decision] = []
        touched: Phase | None = phase
        if member.turn is not None:
            self._end(self.live[member.turn], "Release", decisions)
            touched = None
        member.pending = Pending(self._next_sequence, request, phase, now_ns)
        self._next_sequence += 1
        return self._settle(decisions, now_ns, touched)

    def withdraw(self, name: Member) -> None:
        """The worker gave its request up."""
        if (member := self._members.get(name)) is not None:
            member.pending = None

    def release(self, name: Member, turn: Turn, now_ns: int) -> list[Decision]:
        """End a turn; nothing happens where it is not this member's, or ended before."""
        live = self.live.get(turn)
        if live is None or live.member != name:
            return []
        decisions: list[Decision] = []
        self._end(live, "Release", decisions)
        return self._settle(decisions, now_ns, live.phase)

    def expire(self, now_ns: int) -> list[Decision]:
        """Revoke the turns whose lease has ended."""
        decisions: list[Decision] = []
        for live in [turn for turn in self.live.values() if turn.deadline_ns <= now_ns]:
            self._end(live, "Lease", decisions)
        return self._settle(decisions, now_ns)

    def primaries(self) -> tuple[Turn | None, Turn | None]:
        """Return the primary turns of PULL and PUSH; the same one on a half-duplex link."""
        pull = push = None
        for live in self.live.values():
            if live.phase is Phase.COMP or live.secondary:
                continue
            if live.phase is Phase.PULL or self._links is _ONE_LINK:
                pull = pull or live.turn
            if live.phase is Phase.PUSH or self._links is _ONE_LINK:
                push = push or live.turn
        return pull, push

    # ---- members and groups

    def _forget(self, name: Member) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            self._leave_group(member)

    def _leave_group(self, member: GroupMember) -> None:
        group = self._groups[member.group]
        group.members.remove(member)
        if not group.members:
            del self._groups[member.group]
            self._choose_links()

    def _enter_group(self, member: GroupMember, plan: NodePlan) -> None:
        self._groups.setdefault(plan.group, Group(plan)).add(member, plan)
        self._choose_links()

    def _choose_links(self) -> None:
        full = all(group.plan.network == "FullDuplex" for group in self._groups.values())
        self._links = _TWO_LINKS if full else _ONE_LINK

    # ---- grants

    def _settle(
        self, decisions: list[Decision], now_ns: int, touched: Phase | None = None
    ) -> list[Decision]:
        """Give out whatever can be given out now; `touched` where only one phase can gain."""
        if touched is None or touched is Phase.COMP:
            self._settle_compute(decisions, now_ns)
        if touched is not Phase.COMP:
            for resource, phases in self._links.items():
                self._settle_link(resource, phases, decisions, now_ns)
        return decisions

    def _settle_compute(self, decisions: list[Decision], now_ns: int) -> None:
        walk = self._walk("COMP", (Phase.COMP,), now_ns)
        if not walk:
            return
        kept: set[str] = set()
        for live in self.live.values():
            kept |= live.devices
        passed_over = False
        for member, left in walk:
            if kept.isdisjoint(member.devices):
                self._grant(member, "COMP", passed_over, decisions, now_ns)
            else:
                passed_over = passed_over or left
            # One that waits keeps its devices from those behind it, or it might wait for ever.
            kept |= member.devices

    def _settle_link(
        self,
        resource: Resource,
        phases: tuple[Phase, ...],
        decisions: list[Decision],
        now_ns: int,
    ) -> None:
        transfers = [live for live in self.live.values() if live.phase in phases]
        if all(live.secondary for live in transfers):
            for live in transfers:
                if not live.yields:
                    self._promote(live, decisions, now_ns)
                    break
        for member, has_turns_left in self._walk(resource, phases, now_ns):
            other = transfers[0] if transfers else None
            if len(transfers) > 1 or (other and not self._may_overlap(member, other)):
                break
            if other is not None and other.yields:
                if member.yields or not has_turns_left:
                    # The primary's place is for those who need not yield, and only so often
                    # as the plan says: or the overtaken one might wait for ever.
                    continue
                live = self._grant(member, resource, False, decisions, now_ns)
                other.deadline_ns += member.network_lease_ns
                decisions.append(Overtaken(other))
            else:
                # Only the first in order is looked at: a secondary behind it would become the
                # primary next, and one that cannot be a secondary would never be served.
                live = self._grant(member, resource, False, decisions, now_ns)
                live.yields = member.yields
                live.secondary = live.yields or other is not None
                if other is not None:
                    live.deadline_ns += max(0, other.deadline_ns - now_ns)
            transfers.append(live)

    def _may_overlap(self, member: GroupMember, primary: LiveTurn) -> bool:
        """Both must play by the board, and NET seconds are measured without company.

        A transfer that began without waiting does not know its turn, and cannot show itself.
        """
        holder = self._members.get(primary.member)
        return (
            member.chunked
            and member.network_profiled
            and primary.chunked
            and not primary.standing
            and holder is not None
            and holder.network_profiled
        )

    def _walk(self, resource: Resource, phases: tuple[Phase, ...], now_ns: int) -> list[Candidate]:
        """Return the ready members of all groups, the next to serve first.

        Groups that share a device or link are merged by how long the first of each has
        waited.
        """
        walks = [
            walk
            for group in self._groups.values()
            if (walk := group.candidates(resource, phases, now_ns))
        ]
        if (only := self._leave.holder(now_ns)) is not None:
            return [each for walk in walks for each in walk if each.member.name == only]
        if len(walks) == 1:
            return walks[0]
        walks.sort(key=_first_sequence)
        return [candidate for walk in walks for candidate in walk]

    def _grant(
        self,
        member: GroupMember,
        resource: Resource,
        passed_over: bool,
        decisions: list[Decision],
        now_ns: int,
    ) -> LiveTurn:
        pending = member.pending
        assert pending is not None
        self._groups[member.group].take(member, resource, new_cycle=not passed_over)
        self._next_turn += 1
        turn = Turn(self._next_turn)
        compute = pending.phase is Phase.COMP
        live = LiveTurn(
            turn,
            member.name,
            pending.phase,
            member.devices if compute else frozenset(),
            now_ns + (member.compute_lease_ns if compute else member.network_lease_ns),
            chunked=member.chunked,
            standing=self._is_alone(member),
        )
        if live.standing:
            self._leave.give(member.name)
        self.live[turn] = live
        member.turn = turn
        member.pending = None
        decisions.append(Granted(pending.request, live))
        return live

    def _is_alone(self, member: GroupMember) -> bool:
        """Whether nobody else is there or planned to be, or has left a turn behind."""
        plan = self._groups[member.group].plan
        return (
            member.near
            and len(self._members) == 1
            and len(plan.members) <= 1
            and plan.permits == "Cyclic"
            and all(live.member == member.name for live in self.live.values())
        )

    def _promote(self, live: LiveTurn, decisions: list[Decision], now_ns: int) -> None:
        holder = self._members.get(live.member)
        live.secondary = False
        live.deadline_ns = now_ns + (
            holder.network_lease_ns if holder else MINIMUM_LEASE_NANOSECONDS
        )
        decisions.append(Promoted(live))

    def _end(self, live: LiveTurn, cause: EndCause, decisions: list[Decision]) -> None:
        del self.live[live.turn]
        member = self._members.get(live.member)
        if member is not None and member.turn == live.turn:
            member.turn = None
        decisions.append(Ended(live, cause))


def _first_sequence(walk: list[Candidate]) -> int:
    pending = walk[0].member.pending
    return pending.sequence if pending is not None else 0
