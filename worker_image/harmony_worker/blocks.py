"""Which samples a worker trains on at which iteration.

The answer is a pure function of the seed and the iteration, so a replacement worker resumes
anywhere without a cursor to restore. An epoch is one shuffled pass: its iterations share the
samples evenly, so batches differ by one sample at most and none is left over.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from harmony_worker.randomness import derived_seed


class BlockOrder:
    """The order of `samples` samples over the iterations and workers of a job."""

    def __init__(self, samples: int, batch_size: int, workers: int, seed: int) -> None:
        """`batch_size` is that of one worker.

        Raises ValueError when a worker would get no sample.
        """
        if batch_size < 1:
            raise ValueError(f"a batch of {batch_size} samples")
        if samples < workers:
            raise ValueError(f"{samples} samples are too few for {workers} workers")
        self.samples = samples
        self.workers = workers
        self.seed = seed
        wanted = -(-samples // (batch_size * workers))
        self.iterations_per_epoch = min(wanted, samples // workers)

    def batch(self, iteration: int, worker: int) -> NDArray[np.int64]:
        """Return the indices of the samples of one worker's batch."""
        epoch, step = divmod(iteration, self.iterations_per_epoch)
        part = step * self.workers + worker
        parts = self.iterations_per_epoch * self.workers
        first, end = (self.samples * (part + offset) // parts for offset in (0, 1))
        return _permutation(self.samples, self.seed, epoch)[first:end]


@lru_cache(maxsize=4)
def _permutation(samples: int, seed: int, epoch: int) -> NDArray[np.int64]:
    generator = np.random.Generator(np.random.PCG64(derived_seed(seed, epoch)))
    return generator.permutation(samples)
