"""The leave of a member that is alone on its node to begin phases without waiting for permits.

Asking costs a round trip through another process, and where nobody else is there the answer is
known. A member with the leave still asks for every phase and gets a turn; it just does not wait.
Invariant: nobody else is granted anything until the holder was told to wait again, and has had
the time to hear of it or to say what it began meanwhile.
"""

from typing import Final

from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import Recalled

RECALL_NANOSECONDS: Final = 500_000_000
"""From one look at its socket to the request that follows takes a worker microseconds, and
several tenths of a second where its CPU limit stops it in between."""


class StandingLeave:
    """Who has the leave of a node, if anybody."""

    def __init__(self) -> None:
        self._holder: Member | None = None
        self._recalled_ns: int | None = None

    def give(self, member: Member) -> None:
        """The member need not wait from now on."""
        self._holder, self._recalled_ns = member, None

    def recall(self, now_ns: int) -> list[Recalled]:
        """End it; return the message for the holder, where it has not got it already."""
        if self._holder is None or self._recalled_ns is not None:
            return []
        self._recalled_ns = now_ns
        return [Recalled(self._holder)]

    def forget(self, member: Member) -> None:
        """The member is gone, and its leave with it."""
        if member == self._holder:
            self._holder = self._recalled_ns = None

    def holder(self, now_ns: int) -> Member | None:
        """Return the only member that may be granted anything; None: all may."""
        if self._recalled_ns is not None and now_ns >= self._recalled_ns + RECALL_NANOSECONDS:
            self._holder = self._recalled_ns = None
        return self._holder
