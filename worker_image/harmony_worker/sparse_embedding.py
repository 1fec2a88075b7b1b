"""An embedding whose table lives on the parameter servers, and of which only rows travel.

The module holds the rows that were pulled for the present iteration and nothing else, so a
table may be far larger than a worker's memory.
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding

from harmony_worker.phases import PhaseError


class SparseEmbedding(nn.Module):
    """A table of `rows` x `columns` float32 values that start as N(0, scale^2).

    `optimizer.pull({module: ids})` brings the rows that `forward` may then use.
    """

    def __init__(self, rows: int, columns: int, *, scale: float = 0.01) -> None:
        super().__init__()
        self.rows = rows
        self.columns = columns
        self.scale = scale
        self.place = nn.Parameter(torch.empty(0))
        """The table's place in the model and in the optimizer's param groups; holds nothing."""
        self._ids = torch.empty(0, dtype=torch.int64)
        self._values = torch.empty(0, columns)

    def forward(self, ids: Tensor) -> Tensor:
        """Return the rows of `ids`, shape (*ids.shape, columns).

        Raises PhaseError for a row that was not pulled.
        """
        ids = ids.to(self._ids)
        positions = torch.searchsorted(self._ids, ids)
        here = positions < len(self._ids)
        if not here.all() or not torch.equal(self._ids[positions], ids):
            raise PhaseError("a row is used that this iteration's optimizer.pull() did not name")
        return embedding(positions, self._values)

    def hold(self, ids: Tensor, values: Tensor) -> None:
        """Hold rows `ids` (sorted, unique, int64) with `values` (rows, columns) until released."""
        self._ids = ids.to(self.place.device)
        self._values = values.to(self.place.device).requires_grad_()

    def release(self) -> tuple[Tensor, Tensor]:
        """Return the held rows' ids and their gradients, in host memory, and let go of them."""
        ids, gradient = self._ids, self._values.grad
        if gradient is None:
            gradient = torch.zeros_like(self._values)
        self._ids = ids[:0]
        self._values = self._values.detach()[:0]
        return ids.cpu(), gradient.cpu()
