"""A worker's side of the parameter servers: agree where to start, then SYNC, PULL, PUSH.

Every method asks all servers at once. Nothing here knows how a connection is made or how a job
finds its starting point: what is left is what an iteration exchanges.
"""

import json
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.layout import DenseTensor, dtype_name, plan_layout
from harmony_worker.parameter_server.link import (
    Link,
    ReplacedError,
    RolledBackError,
    ServerLostError,
    ServerRefusedError,
)
from harmony_worker.parameter_server.optimizers import (
    ELEMENTWISE,
    check_dense,
    check_sparse,
    hyperparameters_of,
)
from harmony_worker.parameter_server.resume import ResumePoint, agree
from harmony_worker.parameter_server.row_transfers import RowTransfers
from harmony_worker.parameter_server.server_links import ServerLinks
from harmony_worker.parameter_server.shard import ShardPlan
from harmony_worker.parameter_server.staging import Staging
from harmony_worker.parameter_server.tables import SparseTable
from harmony_worker.parameter_server.wire import NONE, Header, Kind, TransferGate

__all__ = [
    "ParameterServerClient",
    "Pulled",
    "ReplacedError",
    "ResumePoint",
    "RolledBackError",
    "ServerLostError",
    "ServerRefusedError",
    "Synced",
    "TransferGate",
]

SMALL_TRANSFER_BYTES: Final = 1 << 20
"""Below this, one server's transfer costs less than waking the transfer thread."""


@dataclass(frozen=True)
class Synced:
    """The servers are ready for an iteration."""

    waited_ns: int
    """How long the call took."""
    update_ns: int
    """The last update before it, on the slowest server."""
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

    Methods raise RolledBackError when this process must start again in place, ReplacedError
    when it must end, ServerLostError when a server stays away, ServerRefusedError with the
    server's reason. One thread at a time.
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
    ) -> None:
        """Plan the layout; raises UnsupportedOptimizerError. Connects to nobody yet."""
        self._worker = worker
        self._optimizer = optimizer
        self._tables = tuple(tables)
        name = optimizer_class.__name__
        trained = _trained(parameters, optimizer)
        if trained:
            check_dense(name)
        for table in self._tables:
            check_sparse(table.name, table.optimizer, table.hyperparameters)
        self._layout = plan_layout(
            [tensor for tensor, _ in trained], len(servers), elementwise=name in ELEMENTWISE
        )
        self._staging = Staging(
            self._layout, {tensor.name: parameter for tensor, parameter in trained}
        )
        self._rows = RowTransfers(self._tables, len(servers))
        process = secrets.randbits(63)
        links = [
            Link(
                address,
                {
                    "job": job,
                    "worker": worker,
                    "workers": workers,
                    "process": process,
                    "staleness": staleness,
                    "plan": ShardPlan(
                        part=part,
                        optimizer=name,
                        groups=tuple(hyperparameters_of(group) for group in optimizer.param_groups),
                        tables=self._tables,
                        server=server,
                        servers=len(servers),
                    ).to_json(),
                },
            )
            for server, (address, part) in enumerate(zip(servers, self._layout.parts, strict=True))
        ]
        self._servers = ServerLinks(links, transfer_cpus)
        self._in_threads = self._layout.bytes >= SMALL_TRANSFER_BYTES
        self._completed = 0
        self._snapshot_at = NONE
        self._saved_at = NONE
        self._stop_at: int | None = None
        self._sent_settings: dict[str, Any] | None = None

    def initialise(self) -> ResumePoint:
        """Connect to every server and agree where to start, as `resume.agree` does."""
        start = agree(
            self._servers,
            [self._staging.parameter_bytes(part) for part in self._layout.parts],
            chief=self._worker == 0,
        )
        self._completed = start.iteration
        return start

    def sync(self, iteration: int) -> Synced:
        """Commit the push of the iteration before, wait until the servers are at `iteration`."""
        begin = time.monotonic_ns()
        header = Header(
            Kind.SYNC,
            iteration=iteration,
            snapshot_at=self._snapshot_at,
            saved_at=self._saved_at,
        )

        def commit(_: int, link: Link) -> tuple[Header, int]:
            def ask(connection: socket.socket) -> tuple[Header, int]:
                answer = link.ask(connection, header)
                meta = wire.receive_bytes(connection, wire.UPDATE_NS.size)
                return answer, wire.UPDATE_NS.unpack(meta)[0]

            return link.request(ask)

        answers = self._servers.ask_all(commit)
        leader = answers[0][0]
        self._snapshot_at = leader.snapshot_at
        if all(answer.saved_at == leader.saved_at for answer, _ in answers):
            self._saved_at = leader.saved_at
        if leader.stop_at != NONE:
            self._stop_at = leader.stop_at
        update_ns = max(update_ns for _, update_ns in answers)
        return Synced(time.monotonic_ns() - begin, update_ns, self._stop_at)

    def pull(self, gate: TransferGate, rows: Mapping[str, torch.Tensor] | None = None) -> Pulled:
        """Bring the parameters into the flat buffer, and rows (unique int64 ids) by table.

        For a model on a device, `load` then moves them there. Raises IndexError for a row that
        a table does not have.
        """
        wanted = rows or {}
        self._rows.check(wanted)
        values = self._rows.places(wanted)

        def fetch(server: int, link: Link) -> int:
            target = self._staging.parameter_bytes(self._layout.parts[server])
            moved = link.request(lambda connection: self._pull_part(connection, link, target, gate))
            return moved + self._rows.fetch(server, link, wanted, values, gate)

        return Pulled(sum(self._servers.ask_all(fetch, in_threads=self._in_threads)), values)

    def _pull_part(
        self, connection: socket.socket, link: Link, target: memoryview, gate: TransferGate
    ) -> int:
        position = 0
        while position < target.nbytes:
            rest = target.nbytes - position
            count = min(rest, wire.piece_bytes(gate, target.nbytes)) if gate.chunked else rest
            gate.before_chunk()
            link.ask(connection, Header(Kind.PULL), wire.RANGE.pack(position, count))
            wire.receive_into(connection, target[position : position + count], gate)
            position += count
        return position

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

        `rows`: by table, unique int64 ids and their gradients, shape (rows, columns).
        `worker_state` is what a successor gets when it resumes after this iteration. With
        `stop_requested` the servers name an iteration before which all workers stop. Returns
        when every server has the bytes; the update happens at the next `sync`.
        """
        self._rows.check({name: ids for name, (ids, _) in (rows or {}).items()})
        gradients = self._staging.gradient_bytes()
        settings = self._changed_settings()
        header = Header(
            Kind.PUSH,
            flags=wire.Flags.STOP if stop_requested else wire.Flags.NONE,
            generation=self._servers.links[0].generation,
            iteration=iteration,
            snapshot_at=self._snapshot_at,
        )

        def send(server: int, link: Link) -> int:
            meta: dict[str, Any] = dict(settings)
            payload = list(gradients[server])
            if server == 0 and worker_state:
                meta["state"] = len(worker_state)
                payload.append(memoryview(worker_state))
            if self._tables:
                pieces = self._rows.pieces(server, rows or {})
                meta["rows"] = [len(ids) for ids, _ in pieces]
                payload += [wire.bytes_of(tensor) for piece in pieces for tensor in piece]
            encoded = json.dumps(meta).encode() if meta else b""

            def transfer(connection: socket.socket) -> int:
                moved = wire.send_message(connection, header, encoded, payload, gate)
                link.answer(connection)
                return moved

            return link.request(transfer)

        moved = sum(self._servers.ask_all(send, in_threads=self._in_threads))
        self._completed = iteration + 1
        return moved

    def _changed_settings(self) -> dict[str, Any]:
        if self._worker != 0:
            return {}
        settings = {
            "groups": [hyperparameters_of(group) for group in self._optimizer.param_groups],
            "tables": [hyperparameters_of(table.hyperparameters) for table in self._tables],
        }
        if settings == self._sent_settings:
            return {}
        self._sent_settings = settings
        return settings

    def load(self) -> None:
        """Device models: copy the pulled parameters to the device (nothing to do on a CPU)."""
        self._staging.load()

    def store(self) -> None:
        """Device models: copy the gradients to host memory (nothing to do on a CPU)."""
        self._staging.store()

    def finished(self) -> None:
        """Commit the last push, and wait until all workers have done so: the job is over.

        Till then a lost server may call every worker back, so none may leave.
        """
        header = Header(Kind.FINISHED, iteration=self._completed, snapshot_at=self._snapshot_at)
        self._servers.ask_all(
            lambda _, link: link.request(lambda connection: link.ask(connection, header))
        )

    def close(self) -> None:
        """Close the connections; the servers keep everything for a successor."""
        self._servers.close()


def _trained(
    parameters: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer
) -> list[tuple[DenseTensor, torch.nn.Parameter]]:
    groups = {
        id(parameter): index
        for index, group in enumerate(optimizer.param_groups)
        for parameter in group["params"]
    }
    return [
        (
            DenseTensor(name, tuple(p.shape), dtype_name(p.dtype), groups[id(p)]),
            p,
        )
        for name, p in parameters.items()
        if p.requires_grad and id(p) in groups
    ]
