"""The arbiter: a node's permit table for one epoch, and everybody who must hear of its decisions.

Whoever holds the process's lock may call it, and is heard only through the member's latest
channel; it never blocks, and tells whatever follows from
a call before it returns. A turn is recorded in the holders page before its holder hears of
it, so that a successor never gives the same permit to somebody else.
"""

import time
from typing import Protocol

from harmony_api.net_board import NetBoard
from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import Phase, Turn
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import (
    Decision,
    Ended,
    Granted,
    LiveTurn,
    Overtaken,
    Promoted,
    Recalled,
)
from harmony_sidecar.election import ElectionFolder, Seat
from harmony_sidecar.node_pages import record_body
from harmony_sidecar.permits import PermitTable


class Channel(Protocol):
    """The way to a member's worker."""

    def granted(self, request: int, live: LiveTurn, epoch: int) -> None:
        """The request got its turn."""

    def extended(self, turn: Turn, deadline_ns: int) -> None:
        """The turn's lease ends at another time."""

    def revoked(self, turn: Turn) -> None:
        """The turn holds nothing any more."""

    def recalled(self) -> None:
        """The worker has no standing leave any more."""

    def dropped(self) -> None:
        """Nothing more comes this way: the member, or the role, is elsewhere now."""


class Arbiter:
    """Hands out the permits of one node during one epoch."""

    def __init__(self, folder: ElectionFolder, seat: Seat) -> None:
        self.epoch = seat.epoch
        self._page = folder.page
        self._holders = seat.holders
        self._board = NetBoard(folder.board_descriptor)
        self._board.begin_epoch(seat.epoch)
        self._table = PermitTable(seat.epoch)
        self._table.adopt(seat.inherited)
        self._shown: tuple[Turn | None, Turn | None] = (None, None)
        self._channels: dict[Member, Channel] = {}

    @property
    def deposed(self) -> bool:
        """Whether another arbiter has taken over, as after a stop of this process."""
        return self._page.epoch != self.epoch

    def join(
        self,
        member: Member,
        plan: NodePlan,
        channel: Channel,
        *,
        chunked: bool,
        held: Turn,
        near: bool = False,
    ) -> None:
        """A worker takes part; raises ValueError when its names are too long to record.

        `near`: its sidecar is this process.
        """
        record_body(member, Phase.COMP, frozenset(plan.devices))
        previous = self._channels.get(member)
        self._channels[member] = channel
        if previous is not None and previous is not channel:
            previous.dropped()
        now = time.monotonic_ns()
        self._apply(
            self._table.join(member, plan, chunked=chunked, held=held, now_ns=now, near=near)
        )
        if held and held not in self._table.live:
            channel.revoked(held)

    def set_plan(self, member: Member, channel: Channel, plan: NodePlan) -> None:
        """A member's plan changed; raises ValueError as `join` does."""
        record_body(member, Phase.COMP, frozenset(plan.devices))
        if self._channels.get(member) is channel:
            self._apply(self._table.set_plan(member, plan, time.monotonic_ns()))

    def acquire(self, member: Member, channel: Channel, request: int, phase: Phase) -> None:
        """Ask for a permit; the answer comes through the channel."""
        if self._channels.get(member) is channel:
            self._apply(self._table.request(member, request, phase, time.monotonic_ns()))

    def release(self, member: Member, channel: Channel, turn: Turn) -> None:
        """End a turn, or withdraw the member's request when `turn` is 0."""
        if self._channels.get(member) is not channel:
            return
        if turn:
            self._apply(self._table.release(member, turn, time.monotonic_ns()))
        else:
            self._table.withdraw(member)

    def leave(self, member: Member, channel: Channel) -> None:
        """The worker is gone, unless it has come back through another channel."""
        if self._channels.get(member) is channel:
            del self._channels[member]
            self._apply(self._table.leave(member, time.monotonic_ns()))

    def detach(self, member: Member, channel: Channel) -> None:
        """Nobody speaks for the member for the moment; what it holds stays its own."""
        if self._channels.get(member) is channel:
            self._apply(self._table.detach(member, time.monotonic_ns()))

    def expire(self, now_ns: int) -> None:
        """Revoke what has outlived its lease."""
        self._apply(self._table.expire(now_ns))

    def close(self) -> None:
        """Give the role up; members look for the next arbiter."""
        for channel in self._channels.values():
            channel.dropped()

    def _apply(self, decisions: list[Decision]) -> None:
        if not decisions:
            return
        if self.deposed:
            self.close()
            return
        primaries = self._table.primaries()
        if primaries != self._shown:
            self._show(primaries)
        for decision in decisions:
            if isinstance(decision, Recalled):
                self._channels[decision.member].recalled()
                continue
            live = decision.live
            if isinstance(decision, Granted):
                self._holders.write(live)
                self._channels[live.member].granted(decision.request, live, self.epoch)
            elif isinstance(decision, Promoted | Overtaken):
                self._holders.extend(live)
                if live.member in self._channels:
                    self._channels[live.member].extended(live.turn, live.deadline_ns)
            elif decision.cause == "Lease" and live.member in self._channels:
                self._channels[live.member].revoked(live.turn)
        # Erased last: the next holder shall not wait for it, and a successor that still reads
        # it hears from the member that it holds nothing.
        for decision in decisions:
            if isinstance(decision, Ended):
                self._holders.erase(decision.live.turn)

    def _show(self, primaries: tuple[Turn | None, Turn | None]) -> None:
        self._shown = primaries
        self._board.set_primary(Phase.PULL, primaries[0])
        self._board.set_primary(Phase.PUSH, primaries[1])
