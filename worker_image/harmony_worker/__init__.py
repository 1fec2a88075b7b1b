"""Harmony's training SDK: what a program imports.

`connect` for a loop written with phases, `attach` for a loop that exists already. Outside
Harmony both leave a program what it was. Importing this package loads no torch, so that its
light modules (the permit client) stay light.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

    from harmony_worker.job import Job as Job
    from harmony_worker.sparse_embedding import SparseEmbedding as SparseEmbedding

__all__ = ["Job", "SparseEmbedding", "attach", "connect"]


def connect(*, seed: int = 0, staleness: int = 0) -> "Job":
    """Return this process's part of its job, to be used in a `with` statement.

    Everything is found in the environment; without it the program runs alone. torch, numpy
    and random are seeded from `seed`, so what is drawn next (a model's first values) is equal
    on all workers. `staleness`: see Job.
    """
    import os

    import torch

    from harmony_worker.job import Job
    from harmony_worker.membership import Membership
    from harmony_worker.randomness import seed_everything

    torch.cuda.manual_seed_all(seed)  # for a device that the program uses later
    seed_everything(seed)
    return Job(Membership.from_environment(os.environ), seed=seed, staleness=staleness)


def attach(model: "torch.nn.Module", optimizer: "torch.optim.Optimizer") -> "Job":
    """Make a training loop that exists already a job; outside Harmony, do nothing.

    The optimizer's `step()` ends an iteration; the next forward of `model` begins one. The
    job returned need not be used: it ends with the program.
    """
    import os

    from harmony_worker.attached_loop import AttachedJob
    from harmony_worker.membership import Membership

    return AttachedJob(model, optimizer, Membership.from_environment(os.environ))


def __getattr__(name: str) -> Any:
    if name == "SparseEmbedding":
        from harmony_worker.sparse_embedding import SparseEmbedding

        return SparseEmbedding
    if name == "Job":
        from harmony_worker.job import Job

        return Job
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
