"""Where a model's parameters live: on the job's servers, or outside Harmony in this process.

The rest of the SDK sees one interface, so a loop is the same in both cases.
"""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from harmony_worker.local import LocalParameters
from harmony_worker.membership import Membership
from harmony_worker.parameter_server.client import (
    ParameterServerClient,
    Pulled,
    ResumePoint,
    Synced,
    TransferGate,
)
from harmony_worker.parameter_server.tables import SparseTable
from harmony_worker.phases import PhaseError
from harmony_worker.sparse_embedding import SparseEmbedding


class ParameterStore(Protocol):
    """What `ParameterServerClient` and `LocalParameters` have in common."""

    def initialise(self) -> ResumePoint:
        """Agree where to start."""

    def sync(self, iteration: int) -> Synced:
        """Wait until the parameters are those of `iteration`."""

    def pull(self, gate: TransferGate, rows: Mapping[str, Tensor] | None = None) -> Pulled:
        """Bring the parameters, and rows by table."""

    def push(
        self,
        iteration: int,
        gate: TransferGate,
        *,
        rows: Mapping[str, tuple[Tensor, Tensor]] | None = None,
        worker_state: bytes = b"",
        stop_requested: bool = False,
    ) -> int:
        """Give the gradients away; returns the bytes moved."""

    def load(self) -> None:
        """Move what was pulled to where the model computes."""

    def store(self) -> None:
        """Move the gradients to where they are sent from."""

    def finished(self) -> None:
        """Say that this worker is done for good."""

    def close(self) -> None:
        """Leave."""


def sparse_embeddings(model: nn.Module) -> dict[str, SparseEmbedding]:
    """Return the model's sparse embeddings by name; a table is named like its module."""
    modules = model.named_modules()
    return {name: module for name, module in modules if isinstance(module, SparseEmbedding)}


def dense_parameters(model: nn.Module) -> dict[str, nn.Parameter]:
    """Return the model's parameters by name, tied ones once, without the embeddings' places."""
    places = {id(module.place) for module in sparse_embeddings(model).values()}
    named = model.named_parameters()
    return {name: parameter for name, parameter in named if id(parameter) not in places}


def open_parameter_store(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    membership: Membership,
    *,
    seed: int,
    staleness: int,
) -> ParameterStore:
    """Return the store that updates the model's parameters as `optimizer` is set up to.

    Raises UnsupportedOptimizerError when a server cannot run it, PhaseError when several
    workers have no servers. Connects to nobody yet.
    """
    tables = [
        SparseTable(
            name=name,
            rows=module.rows,
            columns=module.columns,
            seed=seed,
            scale=module.scale,
            optimizer=type(optimizer).__name__,
            hyperparameters=_group_of(module.place, optimizer),
        )
        for name, module in sparse_embeddings(model).items()
    ]
    if membership.servers:
        return ParameterServerClient(
            servers=membership.servers,
            job=membership.job,
            worker=membership.worker,
            workers=membership.workers,
            parameters=dense_parameters(model),
            optimizer_class=type(optimizer),
            optimizer=optimizer,
            tables=tables,
            staleness=staleness,
            transfer_cpus=membership.transfer_cpus,
        )
    if membership.workers > 1:
        raise PhaseError(f"{membership.workers} workers need parameter servers to train together")
    return LocalParameters(optimizer, tables)


def _group_of(parameter: nn.Parameter, optimizer: torch.optim.Optimizer) -> Mapping[str, object]:
    """Return the param group that has the parameter; it stays alive to schedulers' changes."""
    for group in optimizer.param_groups:
        if any(member is parameter for member in group["params"]):
            return group
    raise PhaseError("a sparse embedding is in none of the optimizer's param groups")
