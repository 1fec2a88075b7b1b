"""A worker's side of the parameter servers: connect, SYNC, PULL, PUSH.

The methods below are the whole interface; transfers run on one thread per server, pinned to
HARMONY_TRANSFER_CPUS, so that the compute cores stay with the model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from harmony_worker.parameter_server.tables import SparseTable


class TransferGate(Protocol):
    """A NET permit, as far as the data plane needs it (see harmony_worker.permits.Grant)."""

    @property
    def chunked(self) -> bool:
        """Whether to move small pieces now; may become False in the middle of a transfer."""

    def before_chunk(self) -> None:
        """Return when the next piece may move."""

    def moved(self) -> None:
        """A piece has moved."""


class RolledBackError(Exception):
    """The servers are at another point in time than this process: start it again in place."""


class ReplacedError(Exception):
    """A newer process with the same worker index has taken this worker's place."""


class ServerLostError(ConnectionError):
    """A server did not come back within the bound."""


class ServerRefusedError(Exception):
    """A server answered with an error; the message is the server's."""


@dataclass(frozen=True)
class ResumePoint:
    """Where this worker starts."""

    iteration: int
    """The iteration to run next; its SYNC also commits what a predecessor left complete."""
    worker_state: bytes
    """What this worker index pushed as its state with the iteration before; b"" if nothing."""


@dataclass(frozen=True)
class Synced:
    """The servers are ready for an iteration."""

    waited_ns: int
    """How long the call took."""
    update_ns: int
    """The update within it, of the slowest server."""
    stop_at: int | None
    """Stop before running this iteration; None: go on."""


@dataclass(frozen=True)
class Pulled:
    """What a PULL brought."""

    bytes_moved: int
    rows: Mapping[str, torch.Tensor]
    """By table: the values of the rows asked for, shape (rows, columns), in the order asked."""


class ParameterServerClient:
    """One worker's connections to all servers of its job.

    `parameters` are the model's, by name, tied ones once (`dict(model.named_parameters())`);
    those in `optimizer.param_groups` that need gradients are trained. On construction their
    data moves into one flat buffer (`param.data` becomes a view of it), with their present
    values. `optimizer` only carries the param groups and is never stepped: its groups are
    read again at each push of the chief (worker 0), so that schedulers work.
    """

    def __init__(
        self,
        *,
        servers: Sequence[str],
        job: str,
        worker: int,
        workers: int,
        parameters: Mapping[str, torch.nn.Parameter],
        optimizer_class: type[torch.optim.Optimizer],
        optimizer: torch.optim.Optimizer,
        tables: Sequence[SparseTable] = (),
        staleness: int = 0,
        transfer_cpus: frozenset[int] = frozenset(),
    ) -> None: ...

    def initialise(self) -> ResumePoint:
        """Connect to every server and agree where to start.

        The chief's present values initialise a fresh job; the other workers wait for it.
        """

    def sync(self, iteration: int) -> Synced:
        """Commit the push of the iteration before, wait until the servers are at `iteration`."""

    def pull(self, gate: TransferGate, rows: Mapping[str, torch.Tensor] | None = None) -> Pulled:
        """Bring the parameters into the flat buffer, and rows (unique int64 ids) by table.

        For a model on a device, `staging.load()` then moves them there.
        """

    def push(
        self,
        iteration: int,
        gate: TransferGate,
        *,
        rows: Mapping[str, tuple[torch.Tensor, torch.Tensor]] | None = None,
        worker_state: bytes = b"",
        stop_requested: bool = False,
    ) -> int:
        """Send each parameter's `.grad` (None counts as zeros) and return the bytes moved.

        `rows`: by table, unique int64 ids and their gradients, shape (rows, columns). Returns
        when every server has the bytes. The update happens after the next `sync`.
        """

    def load(self) -> None:
        """Device models: copy the pulled parameters to the device (nothing to do on a CPU)."""

    def store(self) -> None:
        """Device models: copy the gradients to host memory (nothing to do on a CPU)."""

    def finished(self) -> None:
        """Commit the last push and tell the servers that this worker is done for good."""

    def close(self) -> None:
        """Close the connections; the servers keep everything for a successor."""
