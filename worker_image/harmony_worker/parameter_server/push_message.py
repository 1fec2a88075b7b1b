"""The parts of a PUSH: how long each is, checked before any of it is read.

The payload is the dense part, the worker's state (to server 0 only), then for each table the
row ids and their gradients.
"""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.shard import Shard
from harmony_worker.parameter_server.wire import Header, WireError

Settings = tuple[list[dict[str, Any]], list[dict[str, Any]]]
"""Hyperparameters of the param groups, and of the tables."""


@dataclass(frozen=True)
class PushMessage:
    """What one PUSH brings to a shard, the dense part aside."""

    worker_state: bytes
    rows: tuple[tuple[torch.Tensor, torch.Tensor], ...]
    """By table: row ids, and gradients of shape (rows, columns)."""
    settings: Settings | None
    """The chief's, where they changed."""


@dataclass(frozen=True)
class PushForm:
    """The lengths that a PUSH announces, from its meta block."""

    state_bytes: int
    row_counts: tuple[int, ...]
    settings: Settings | None

    @staticmethod
    def read(connection: socket.socket, request: Header, shard: Shard) -> "PushForm":
        """Read the meta block; raises WireError unless it fits the shard and the header."""
        meta = wire.receive_json(connection, request)
        form = PushForm._parse(meta, len(shard.tables))
        if len(form.row_counts) != len(shard.tables) or any(
            not 0 <= count <= len(table.held)
            for count, table in zip(form.row_counts, shard.tables, strict=True)
        ):
            raise WireError(f"a push of {form.row_counts} rows")
        if form.settings is not None and (len(form.settings[0]), len(form.settings[1])) != (
            len(shard.plan.groups),
            len(shard.tables),
        ):
            raise WireError("a push with settings of other param groups")
        row_bytes = sum(
            count * (8 + table.row_bytes)
            for count, table in zip(form.row_counts, shard.tables, strict=True)
        )
        payload_bytes = shard.plan.part.bytes + form.state_bytes + row_bytes
        if not 0 <= form.state_bytes <= wire.MAX_STATE_BYTES:
            raise WireError(f"a push with {form.state_bytes} bytes of worker state")
        if request.payload_bytes != payload_bytes:
            raise WireError(f"a push of {request.payload_bytes} bytes, not {payload_bytes}")
        return form

    @staticmethod
    def _parse(meta: Mapping[str, Any], tables: int) -> "PushForm":
        settings = None
        try:
            if "groups" in meta:
                settings = (
                    [dict(group) for group in meta["groups"]],
                    [dict(group) for group in meta["tables"]],
                )
            return PushForm(
                state_bytes=int(meta.get("state", 0)),
                row_counts=tuple(int(count) for count in meta.get("rows", [0] * tables)),
                settings=settings,
            )
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise WireError(f"a push that cannot be read: {error!r}") from None

    def receive(self, connection: socket.socket, dense: memoryview, shard: Shard) -> PushMessage:
        """Receive the payload, its dense part into `dense`."""
        wire.receive_into(connection, dense)
        state = wire.receive_bytes(connection, self.state_bytes)
        rows = []
        for count, table in zip(self.row_counts, shard.tables, strict=True):
            ids = wire.receive_tensor(connection, (count,), torch.int64)
            shape = (count, table.table.columns)
            rows.append((ids, wire.receive_tensor(connection, shape, torch.float32)))
        return PushMessage(state, tuple(rows), self.settings)
