"""The optimizer as a training loop sees it: `pull()` brings parameters, `push()` sends gradients.

It is a torch Optimizer, so learning-rate schedulers work on its param groups; the update
itself happens where the parameters live.
"""

from collections.abc import Callable, Mapping
from typing import Any, NoReturn

import torch
from torch import Tensor

from harmony_api.worker_protocol import Phase
from harmony_worker.parameter_store import ParameterStore
from harmony_worker.phases import PhaseError, Phases
from harmony_worker.sparse_embedding import SparseEmbedding


class PhasedOptimizer(torch.optim.Optimizer):
    """Shares the param groups of an ordinary optimizer and replaces its step."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        store: ParameterStore,
        phases: Phases,
        embeddings: Mapping[str, SparseEmbedding],
        worker_state: Callable[[], bytes],
    ) -> None:
        super().__init__(optimizer.param_groups, optimizer.defaults)
        self._store = store
        self._phases = phases
        self._embeddings = embeddings
        self._worker_state = worker_state

    def pull(self, rows: Mapping[SparseEmbedding, Tensor] | None = None) -> None:
        """Bring the parameters, and of sparse embeddings the rows with these ids.

        Raises PhaseError outside of `with job.pull():`.
        """
        gate = self._phases.gate(Phase.PULL)
        names = {module: name for name, module in self._embeddings.items()}
        wanted = {
            names[module]: torch.unique(ids.long().cpu()) for module, ids in (rows or {}).items()
        }
        pulled = self._store.pull(gate, wanted)
        for name, values in pulled.rows.items():
            self._embeddings[name].hold(wanted[name], values)
        self._phases.moved(pulled.bytes_moved)

    def push(self) -> None:
        """Send the gradients; outside Harmony, update the parameters.

        Raises PhaseError outside of `with job.push():`.
        """
        gate = self._phases.gate(Phase.PUSH)
        rows = {name: module.release() for name, module in self._embeddings.items()}
        moved = self._store.push(
            self._phases.iteration,
            gate,
            rows=rows,
            worker_state=self._worker_state(),
            stop_requested=self._phases.stop_requested,
        )
        self._opt_called = True
        """What learning-rate schedulers look at to know that a step was made."""
        self._phases.moved(moved)

    def step(self, closure: Any = None) -> NoReturn:  # noqa: ARG002
        """Not to be called: raises PhaseError."""
        raise PhaseError("call optimizer.push() within `with job.push():` in place of step()")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Do nothing: gradients start from zero at the first `compute()` of an iteration."""
