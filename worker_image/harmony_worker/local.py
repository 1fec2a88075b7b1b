"""Parameters outside Harmony: the same loop with an ordinary optimizer in the same process.

It offers what `ParameterServerClient` offers. PULL has nothing to bring, PUSH is the
optimizer's step; sparse tables start from the servers' values and follow the servers' rules,
so a script's losses are the same with and without servers.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from harmony_worker.parameter_server.client import Pulled, ResumePoint, Synced, TransferGate
from harmony_worker.parameter_server.optimizers import (
    build,
    check_sparse,
    hyperparameters_of,
    settings_from_json,
)
from harmony_worker.parameter_server.tables import SparseTable, initial_rows


class LocalParameters:
    """One worker's parameters, updated in place."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, tables: Sequence[SparseTable] = ()
    ) -> None:
        self._optimizer = optimizer
        self._tables = {table.name: _LocalTable(table) for table in tables}

    def initialise(self) -> ResumePoint:
        """Start from the values that the program made."""
        return ResumePoint(iteration=0, worker_state=b"")

    def sync(self, iteration: int) -> Synced:  # noqa: ARG002
        """Nobody to wait for."""
        return Synced(waited_ns=0, update_ns=0, stop_at=None)

    def pull(self, gate: TransferGate, rows: Mapping[str, Tensor] | None = None) -> Pulled:  # noqa: ARG002
        """Parameters are here; look up the rows asked for."""
        found = {name: self._tables[name].values[ids] for name, ids in (rows or {}).items()}
        return Pulled(bytes_moved=0, rows=found)

    def push(
        self,
        iteration: int,  # noqa: ARG002
        gate: TransferGate,  # noqa: ARG002
        *,
        rows: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        worker_state: bytes = b"",  # noqa: ARG002
        stop_requested: bool = False,  # noqa: ARG002
    ) -> int:
        """Update the parameters from their gradients, and the tables from `rows`."""
        self._optimizer.step()
        for name, (ids, gradient) in (rows or {}).items():
            self._tables[name].update(ids, gradient)
        return 0

    def load(self) -> None:
        """The model is where it computes."""

    def store(self) -> None:
        """Gradients are where they are used."""

    def finished(self) -> None:
        """Nobody to tell."""

    def close(self) -> None:
        """Nothing is open."""


class _LocalTable:
    def __init__(self, table: SparseTable) -> None:
        check_sparse(table.name, table.optimizer, table.hyperparameters)
        self._table = table
        self._weight = torch.nn.Parameter(initial_rows(table, range(table.rows)))
        self._optimizer = build(table.optimizer, [{"params": [self._weight], **self._settings()}])

    @property
    def values(self) -> Tensor:
        return self._weight.detach()

    def update(self, ids: Tensor, gradient: Tensor) -> None:
        self._optimizer.param_groups[0].update(self._settings())
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            self._weight.grad = torch.sparse_coo_tensor(
                ids.unsqueeze(0), gradient, self._weight.shape, is_coalesced=True
            )
            self._optimizer.step()

    def _settings(self) -> dict[str, object]:
        return settings_from_json(hyperparameters_of(self._table.hyperparameters))
