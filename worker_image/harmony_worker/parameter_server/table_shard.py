"""A server's rows of one sparse table, and their update."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from harmony_worker.parameter_server.optimizers import (
    build,
    check_sparse,
    copied_state,
    hyperparameters_of,
    settings_from_json,
)
from harmony_worker.parameter_server.tables import SparseTable, initial_rows


class TableShard:
    """Rows `held` of a table, with the gradients that workers pushed for some of them."""

    def __init__(self, table: SparseTable, held: range) -> None:
        """Draw the first values; raises UnsupportedOptimizerError."""
        check_sparse(table.name, table.optimizer, table.hyperparameters)
        self.table = table
        self.held = held
        self._values = initial_rows(table, held)
        self._pushed: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        group = {**settings_from_json(table.hyperparameters), "params": [self._values]}
        self._optimizer = build(table.optimizer, [group])

    @property
    def row_bytes(self) -> int:
        """Bytes of one row's values."""
        return self.table.columns * self._values.element_size()

    def local_rows(self, rows: torch.Tensor) -> torch.Tensor:
        """Return ids as positions in this shard; raises IndexError for rows held elsewhere."""
        if rows.numel() and not (
            self.held.start <= int(rows.min()) and int(rows.max()) < self.held.stop
        ):
            raise IndexError(f"rows of table {self.table.name!r} outside {self.held}")
        return rows - self.held.start

    def read(self, rows: torch.Tensor) -> torch.Tensor:
        """Return a copy of the values of these rows, in their order."""
        return self._values[self.local_rows(rows)]

    def put(self, worker: int, rows: torch.Tensor, gradients: torch.Tensor) -> None:
        """Keep a worker's gradients for the next update; `rows` are unique."""
        self._pushed[worker] = (self.local_rows(rows), gradients)

    def set_hyperparameters(self, settings: Mapping[str, Any]) -> None:
        """Take over the chief's settings."""
        check_sparse(self.table.name, self.table.optimizer, settings)
        self._optimizer.param_groups[0].update(settings_from_json(settings))

    def update(self, workers: Sequence[int], divisor: int) -> None:
        """Apply the mean of these workers' gradients, summed in the order given."""
        pushed = [self._pushed.pop(worker) for worker in workers if worker in self._pushed]
        if not any(rows.numel() for rows, _ in pushed):
            return
        touched, positions = torch.unique(
            torch.cat([rows for rows, _ in pushed]), return_inverse=True
        )
        total = torch.zeros(len(touched), self.table.columns)
        begin = 0
        for rows, gradients in pushed:
            total.index_add_(0, positions[begin : begin + len(rows)], gradients)
            begin += len(rows)
        if divisor > 1:
            total.div_(divisor)
        self._values.grad = torch.sparse_coo_tensor(
            touched.unsqueeze(0),
            total,
            self._values.shape,
            is_coalesced=True,
            check_invariants=False,
        )
        self._optimizer.step()

    def state(self) -> dict[str, Any]:
        """Return a copy of everything that training changes here."""
        return {
            "values": self._values.clone(),
            "optimizer": copied_state(self._optimizer, self._values),
            "group": hyperparameters_of(self._optimizer.param_groups[0]),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned, to the bit."""
        self._pushed.clear()
        self._values.copy_(state["values"])
        if state["optimizer"]:
            self._optimizer.state[self._values] = dict(state["optimizer"])
        self._optimizer.param_groups[0].update(settings_from_json(state["group"]))
