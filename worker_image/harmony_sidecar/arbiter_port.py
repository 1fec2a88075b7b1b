"""A worker's way to the arbiter, as its session sees it: in this process or over a socket.

The session depends on this form alone, so it never knows where the arbiter runs.
"""

from typing import Protocol

from harmony_api.node_plan import NodePlan
from harmony_api.worker_protocol import Phase, Turn


class ArbiterPort(Protocol):
    """The way to the arbiter, in this process or another."""

    def acquire(self, request: int, phase: Phase) -> None:
        """Ask for a permit."""

    def release(self, turn: Turn) -> None:
        """Return a turn; 0 withdraws the request."""

    def set_plan(self, plan: NodePlan) -> None:
        """Pass a new plan on."""

    def leave(self) -> None:
        """The worker is gone."""

    def close(self) -> None:
        """Part without a farewell: the worker is still there."""
