"""A training loop that exists already, bracketed from outside into phases.

The model's first forward of an iteration waits for the servers, pulls and takes the COMP
permit; the optimizer's step gives it back and pushes. Torch's own hooks carry both, so the
loop, its optimizer and its schedulers stay as they are: a step whose gradients have been sent
away finds none and changes nothing.

The loop's data order is its own, so a replacement cannot jump to an iteration. It runs the
loop from the start without transfers until it is where the job was; with the loop's own seeds
it then has the same data, random states and schedulers as its predecessor.
"""

import atexit
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from harmony_worker.job import Job, is_success, restart_in_place
from harmony_worker.membership import Membership
from harmony_worker.parameter_server.client import RolledBackError
from harmony_worker.phases import PhaseError

if TYPE_CHECKING:
    from harmony_worker.phased_optimizer import PhasedOptimizer


class AttachedJob(Job):
    """A job whose phases follow from what an ordinary loop does.

    It ends with the program, unless an exception, a stop or a code other than 0 ended that; in
    a `with` statement it ends with the block.

    Python keeps the exit code to itself, so `sys.exit` is replaced by one that notes it.
    """

    def __init__(
        self, model: nn.Module, optimizer: torch.optim.Optimizer, membership: Membership
    ) -> None:
        super().__init__(membership)
        self._optimizer: PhasedOptimizer | None = None
        self._compute = ExitStack()
        self._computing = False
        self._exit_code: object = None
        self._sent: list[tuple[Tensor, Tensor | None]] = []
        self._total = membership.iterations or 0
        self._replay_until = 0
        if membership.servers:
            with self._leaving_in_order():
                self._optimizer = self.adopt(model, optimizer)
            self._replay_until = self.iteration
            self._phases.iteration = 0
        model.register_forward_pre_hook(self._before_forward)
        optimizer.register_step_pre_hook(self._before_step)
        optimizer.register_step_post_hook(self._after_step)
        sys.exit = self._exit
        atexit.register(self._at_exit)

    def report(self, loss: Tensor | float) -> None:
        """Note the loss of the present iteration; replayed ones were reported before."""
        if not self._replaying:
            super().report(loss)

    def finish(self) -> None:
        """Tell servers and sidecar that this worker has done its part."""
        self._compute.close()
        super().finish()

    def close(self) -> None:
        """Leave; the servers keep everything for a successor."""
        atexit.unregister(self._at_exit)
        self._compute.close()
        super().close()

    @property
    def _replaying(self) -> bool:
        return self.iteration < self._replay_until

    def _before_forward(self, model: nn.Module, inputs: Any) -> None:  # noqa: ARG002
        if self._computing:
            return
        with self._leaving_in_order():
            self._begin_iteration()
            if self.iteration == self._replay_until > 0:
                self._restore_state()
            if self._optimizer is None:
                self._synchronise()
            elif not self._replaying:
                with self.pull():
                    self._optimizer.pull()
            self._compute.enter_context(self.compute())
            self._computing = True

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self._optimizer is None:
            return
        if len(args) > 1 or kwargs:
            raise PhaseError("step(closure) computes within the update, which a server cannot do")
        if not self._computing:
            raise PhaseError("step() without a forward of the attached model")
        with self._leaving_in_order():
            self._end_compute()
            if not self._replaying:
                with self.push():
                    self._optimizer.push()
            for group in optimizer.param_groups:
                for parameter in group["params"]:
                    self._sent.append((parameter, parameter.grad))
                    parameter.grad = None

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:  # noqa: ARG002
        if self._computing:
            self._end_compute()
        self._pushed = True
        for parameter, gradient in self._sent:
            parameter.grad = gradient
        self._sent.clear()

    def _end_compute(self) -> None:
        self._compute.close()
        self._computing = False

    @contextmanager
    def _leaving_in_order(self) -> Iterator[None]:
        try:
            yield
        except RolledBackError:
            restart_in_place()
        except SystemExit as stop:
            self._exit_code = stop.code
            raise

    def _exit(self, code: object = None) -> NoReturn:
        self._exit_code = code
        raise SystemExit(code)

    def _at_exit(self) -> None:
        if is_success(self._exit_code) and not hasattr(sys, "last_value"):
            self.finish()
        self.close()
