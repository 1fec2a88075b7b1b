"""A worker's rows of sparse tables: which server has which, and how they come and go."""

import socket
from collections.abc import Mapping, Sequence
from functools import partial

import torch

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.link import Link
from harmony_worker.parameter_server.tables import SparseTable, row_range
from harmony_worker.parameter_server.wire import Header, Kind, TransferGate


class RowTransfers:
    """The tables of one job, as a worker sees them."""

    def __init__(self, tables: Sequence[SparseTable], servers: int) -> None:
        self._tables = tuple(tables)
        self._servers = servers

    def check(self, rows: Mapping[str, torch.Tensor]) -> None:
        """Raise IndexError for a row that a table does not have."""
        tables = {table.name: table for table in self._tables}
        for name, ids in rows.items():
            outside = ids[(ids < 0) | (ids >= tables[name].rows)]
            if len(outside):
                raise IndexError(
                    f"row {int(outside[0])} of table {name!r}, which has {tables[name].rows}"
                )

    def places(self, rows: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """Return, by table, room for the values of these rows."""
        return {
            table.name: torch.empty(len(rows[table.name]), table.columns)
            for table in self._tables
            if table.name in rows
        }

    def fetch(
        self,
        server: int,
        link: Link,
        rows: Mapping[str, torch.Tensor],
        values: Mapping[str, torch.Tensor],
        gate: TransferGate,
    ) -> int:
        """Bring the rows that one server holds into their places; returns the bytes moved."""
        moved = 0
        for index, table in enumerate(self._tables):
            if table.name not in rows:
                continue
            here = self._held(table, server, rows[table.name]).nonzero().view(-1)
            ids = rows[table.name][here]
            fetched = torch.empty(len(ids), table.columns)
            moved += link.request(partial(_pull_rows, link, index, ids, fetched, gate))
            values[table.name][here] = fetched
        return moved

    def pieces(
        self, server: int, rows: Mapping[str, tuple[torch.Tensor, torch.Tensor]]
    ) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Return, for each table, the ids and gradients that go to one server."""
        pieces = []
        for table in self._tables:
            if table.name in rows:
                ids, gradients = rows[table.name]
                here = self._held(table, server, ids)
                pieces.append((ids[here], gradients[here]))
            else:
                pieces.append((torch.empty(0, dtype=torch.int64), torch.empty(0, table.columns)))
        return pieces

    def _held(self, table: SparseTable, server: int, ids: torch.Tensor) -> torch.Tensor:
        held = row_range(table.rows, server, self._servers)
        return (ids >= held.start) & (ids < held.stop)


def _pull_rows(
    link: Link,
    table: int,
    ids: torch.Tensor,
    into: torch.Tensor,
    gate: TransferGate,
    connection: socket.socket,
) -> int:
    gate.before_chunk()
    header = Header(Kind.ROWS, generation=link.generation)
    wire.send_message(connection, header, wire.TABLE.pack(table), [wire.bytes_of(ids)])
    link.answer(connection)
    wire.receive_into(connection, wire.bytes_of(into), gate)
    return ids.nbytes + into.nbytes
