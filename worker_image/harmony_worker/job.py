"""The job as a training program sees it.

The order of an iteration is fixed here: SYNC without a permit (nobody holds one while waiting
for another process), PULL, COMP, PUSH. Every way out of the `with` block is decided here too:
a program that ends well tells its servers, one that fails or stops leaves without a word, and one
whose servers went back in time starts again in place.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any, Final, NoReturn, Self, TypeVar

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import LRScheduler

from harmony_api.worker_protocol import Phase
from harmony_worker.blocks import BlockOrder
from harmony_worker.loss_log import LossLog
from harmony_worker.membership import Membership
from harmony_worker.parameter_server.client import RolledBackError
from harmony_worker.parameter_store import (
    ParameterStore,
    dense_parameters,
    open_parameter_store,
    sparse_embeddings,
)
from harmony_worker.permits import PermitClient
from harmony_worker.phased_optimizer import PhasedOptimizer
from harmony_worker.phases import PhaseError, Phases
from harmony_worker.placement import pin_process
from harmony_worker.randomness import seed_everything
from harmony_worker.termination import end_on_sigterm
from harmony_worker.worker_state import WorkerState

EXIT_STOPPED: Final = 75
"""Exit code of a worker that stopped because it was asked to: neither success nor failure."""

ModelT = TypeVar("ModelT", bound=nn.Module)


class Job:
    """One worker's part of a job; a context manager.

    `staleness` is how many iterations a worker may be ahead of the slowest; 0 keeps results
    equal to the last bit from run to run.
    """

    def __init__(self, membership: Membership, *, seed: int = 0, staleness: int = 0) -> None:
        self.state: dict[str, Tensor] = {}
        """Tensors that the program carries from iteration to iteration; a replacement of this
        worker finds them again as they were at the last `optimizer.push()`."""
        end_on_sigterm()
        self._membership = membership
        self._seed = seed
        self._staleness = staleness
        if membership.compute_cpus:
            pin_process(membership.compute_cpus)
            torch.set_num_threads(len(membership.compute_cpus))
        socket = membership.socket
        self._phases = Phases(PermitClient.connect(socket) if socket else None)
        self._losses = LossLog(membership.loss_log) if membership.loss_log else None
        self._store: ParameterStore | None = None
        self._parameters: list[nn.Parameter] = []
        self._schedulers: list[LRScheduler] = []
        self._total = 0
        self._loaded = False
        self._pushed = False

    @property
    def worker(self) -> int:
        """Index of this worker, from 0."""
        return self._membership.worker

    @property
    def workers(self) -> int:
        """How many workers the job has."""
        return self._membership.workers

    @property
    def iteration(self) -> int:
        """The present iteration, from 0; after a resume it goes on where the job was."""
        return self._phases.iteration

    def parameter_server(
        self,
        model: ModelT,
        optimizer: type[torch.optim.Optimizer],
        *,
        params: Any = None,
        **settings: Any,
    ) -> tuple[ModelT, PhasedOptimizer]:
        """Hand the model's parameters to the servers, to be updated by `optimizer`.

        `params` (default: all of the model's) and `settings` are what the optimizer's class
        takes. Raises UnsupportedOptimizerError for one that a server cannot run. The values
        in the model are those of the servers after the first PULL.
        """
        return model, self.adopt(model, optimizer(params or model.parameters(), **settings))

    def adopt(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> PhasedOptimizer:
        """Hand over a model whose optimizer exists already; its settings are taken over."""
        if self._store is not None:
            raise PhaseError("a job has one model: put several into one module")
        self._parameters = list(dense_parameters(model).values())
        store = open_parameter_store(
            model, optimizer, self._membership, seed=self._seed, staleness=self._staleness
        )
        carried = WorkerState(model, self.state)
        resume = store.initialise()
        self._restore_state = partial(carried.load, resume.worker_state)
        self._restore_state()
        self._phases.iteration = resume.iteration
        self._store = store
        return PhasedOptimizer(
            optimizer, store, self._phases, sparse_embeddings(model), carried.dump
        )

    def schedule(self, scheduler: LRScheduler) -> None:
        """Step a learning-rate scheduler after every iteration, and now up to this one."""
        self._schedulers.append(scheduler)
        scheduler.optimizer._opt_called = True  # type: ignore[attr-defined]
        for _ in range(self.iteration):
            scheduler.step()

    def iterations(self, iterations: int | None = None, *, default: int = 1) -> Iterator[int]:
        """Yield the iterations that are left to run, each with its own random numbers.

        The total is `iterations`, else what the manifest says, else `default`.
        """
        if iterations is None:
            iterations = self._membership.iterations or default
        self._total = iterations
        for iteration in range(self.iteration, iterations):
            self._phases.iteration = iteration
            self._pushed = False
            seed_everything(self._seed, self.worker, iteration)
            yield iteration
            if self._store is not None and not self._pushed:
                raise PhaseError(f"iteration {iteration} ended without `with job.push():`")

    def blocks(
        self,
        *data: Tensor,
        batch_size: int,
        iterations: int | None = None,
        epochs: int = 1,
    ) -> Iterator[Any]:
        """Yield this worker's batch of every iteration that is left, shuffled in each epoch.

        `data` are tensors with one sample per row; a batch is a tuple with as many tensors, or
        one tensor for one. `batch_size` is per worker. The total is `iterations`, else what
        the manifest says, else `epochs`. Raises ValueError when the tensors differ in length.
        """
        lengths = {len(tensor) for tensor in data}
        if len(lengths) != 1:
            raise ValueError(f"blocks() needs tensors of one length, not of {sorted(lengths)}")
        order = BlockOrder(lengths.pop(), batch_size, self.workers, self._seed)
        for iteration in self.iterations(iterations, default=epochs * order.iterations_per_epoch):
            rows = torch.from_numpy(order.batch(iteration, self.worker))
            batch = tuple(tensor[rows] for tensor in data)
            yield batch if len(batch) > 1 else batch[0]

    @contextmanager
    def pull(self) -> Iterator[None]:
        """Wait for the servers without a permit, then hold a PULL permit for the block.

        After a push it begins the next iteration. Raises SystemExit with EXIT_STOPPED when
        the job stops before it.
        """
        self._begin_iteration()
        self._synchronise()
        with self._phases.turn(Phase.PULL):
            yield
        self._loaded = False

    @contextmanager
    def compute(self) -> Iterator[None]:
        """Hold a COMP permit for the block, until the device has finished.

        Gradients are zero when the first such block of an iteration begins.
        """
        with self._phases.turn(Phase.COMP):
            if self._store is not None and not self._loaded:
                self._store.load()
                for parameter in self._parameters:
                    parameter.grad = None
                self._loaded = True
            try:
                yield
                if self._store is not None:
                    self._store.store()
            finally:
                if torch.cuda.is_initialized():
                    torch.cuda.synchronize()

    @contextmanager
    def push(self) -> Iterator[None]:
        """Hold a PUSH permit for the block; it ends the iteration."""
        with self._phases.turn(Phase.PUSH):
            yield
        self._pushed = True
        for scheduler in self._schedulers:
            scheduler.step()

    def report(self, loss: Tensor | float) -> None:
        """Note the loss of the present iteration.

        Before the push: after it the iteration counts as done, and the loss of a worker that
        is killed in between would be missing.
        """
        value = float(loss.detach() if isinstance(loss, Tensor) else loss)
        if self._losses is not None:
            self._losses.write(self.iteration, value)
        if self._phases.permits is not None:
            self._phases.permits.report(self.iteration, self._total, value)
        done = self.iteration + 1
        if self._total and (done == self._total or done % -(-self._total // 20) == 0):
            _say(f"iteration {done}/{self._total}: loss {value:.4f}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if kind is None or (isinstance(error, SystemExit) and is_success(error.code)):
            self.finish()
        elif isinstance(error, RolledBackError):
            restart_in_place()
        self.close()

    def finish(self) -> None:
        """Tell servers and sidecar that this worker has done its part."""
        try:
            if self._store is not None:
                self._store.finished()
        except RolledBackError:
            restart_in_place()
        if self._phases.permits is not None:
            self._phases.permits.end()

    def close(self) -> None:
        """Leave; the servers keep everything for a successor."""
        if self._store is not None:
            self._store.close()
            if self._membership.transfer_cpus:
                # Taking a torch process down takes a second of work: not on the slot's cores.
                pin_process(self._membership.transfer_cpus)
        if self._phases.permits is not None:
            self._phases.permits.close()
        if self._losses is not None:
            self._losses.close()

    def _begin_iteration(self) -> None:
        if self._pushed:
            self._phases.iteration += 1
            self._pushed = False

    def _synchronise(self) -> None:
        if self._store is None or not self._membership.servers:
            if self._phases.stop_requested:
                raise SystemExit(EXIT_STOPPED)
            return
        synced = self._store.sync(self.iteration)
        if self._phases.permits is not None:
            self._phases.permits.synced(self.iteration, synced.waited_ns, synced.update_ns)
        if synced.stop_at is not None and self.iteration >= synced.stop_at:
            _say(f"stopped before iteration {self.iteration}, as asked")
            raise SystemExit(EXIT_STOPPED)


def is_success(exit_code: object) -> bool:
    """Whether a program that is left by `sys.exit(exit_code)` has ended well."""
    return exit_code is None or exit_code == 0


def restart_in_place() -> NoReturn:
    """Run this program from its start in the same process, as it was called."""
    _say("the servers went back in time: starting again from there")
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def _say(text: str) -> None:
    with suppress(OSError):  # a full disk costs lines, never the training
        print(text, flush=True)
