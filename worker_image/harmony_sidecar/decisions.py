"""Turns that are out, and what a permit table can decide about them."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

from harmony_api.worker_protocol import Phase, Turn
from harmony_sidecar.cyclic_order import Member

EndCause = Literal["Release", "Lease", "Disconnect"]


@dataclass(slots=True)
class LiveTurn:
    """A permit that is out."""

    turn: Turn
    member: Member
    phase: Phase
    devices: frozenset[str]
    """Devices of a COMP turn; empty for NET."""
    deadline_ns: int
    secondary: bool = False
    chunked: bool = False
    """The holder steps aside for a primary, and shows its own progress on the board."""
    standing: bool = False
    """The holder may begin its next phases without waiting for their turns."""
    yields: bool = False
    """A NET turn that stays the secondary: members with more rounds overtake it at any time."""


class Granted(NamedTuple):
    """The member may start; `live` is its turn."""

    request: int
    live: LiveTurn


class Promoted(NamedTuple):
    """A secondary NET turn became its link's primary, with a lease of its own from now."""

    live: LiveTurn


class Overtaken(NamedTuple):
    """A secondary NET turn waits for a new primary; its lease grew by that one's."""

    live: LiveTurn


class Ended(NamedTuple):
    """The turn holds nothing any more."""

    live: LiveTurn
    cause: EndCause


class Recalled(NamedTuple):
    """The member must wait for its turns again."""

    member: Member


Decision = Granted | Promoted | Overtaken | Ended | Recalled
