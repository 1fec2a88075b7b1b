"""How far a worker is, as it says itself; plain fields, since the permit path writes them."""

from dataclasses import dataclass


@dataclass(slots=True)
class WorkerProgress:
    """What a sidecar knows of its worker beside its turns."""

    iteration: int = 0
    total: int = 0
    """0: unknown."""
    loss: float | None = None
    connected: bool = False
    ended: bool = False
    """The program said that it is done."""
    uncoordinated_turns: int = 0
    revoked_turns: int = 0
