"""Sparse tables: embeddings of which an iteration touches few rows.

A table is cut into contiguous row ranges, one per server. Its first values are drawn by the
servers, block by block from (seed, table, block), so they depend neither on the number of
servers nor on the worker; the same function gives a program outside Harmony the same values.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from harmony_worker.parameter_server.optimizers import Hyperparameters

INIT_BLOCK_ROWS: Final = 1024


@dataclass(frozen=True)
class SparseTable:
    """A table of `rows` x `columns` float32 values, drawn from N(0, scale^2).

    `hyperparameters` may be a live mapping (a param group that a scheduler changes): the
    chief's values travel with its pushes.
    """

    name: str
    rows: int
    columns: int
    seed: int
    scale: float
    optimizer: str
    hyperparameters: Hyperparameters = field(compare=False)

    def to_json(self) -> dict[str, Any]:
        """Return what makes the table what it is, without its hyperparameters."""
        return {
            "name": self.name,
            "rows": self.rows,
            "columns": self.columns,
            "seed": self.seed,
            "scale": self.scale,
            "optimizer": self.optimizer,
        }


def row_range(rows: int, server: int, servers: int) -> range:
    """Return the rows of a table that a server holds."""
    return range(rows * server // servers, rows * (server + 1) // servers)


def initial_rows(table: SparseTable, rows: range) -> torch.Tensor:
    """Return the first values of a contiguous range of rows, shape (len(rows), columns)."""
    values = torch.empty(len(rows), table.columns)
    if not rows:
        return values
    for block in range(rows.start // INIT_BLOCK_ROWS, (rows.stop - 1) // INIT_BLOCK_ROWS + 1):
        text = f"{table.seed}/{table.name}/{block}"
        digest = hashlib.sha256(text.encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:8], "little", signed=True))
        drawn = torch.randn(INIT_BLOCK_ROWS, table.columns, generator=generator) * table.scale
        first = block * INIT_BLOCK_ROWS
        begin, end = max(rows.start, first), min(rows.stop, first + INIT_BLOCK_ROWS)
        values[begin - rows.start : end - rows.start] = drawn[begin - first : end - first]
    return values
