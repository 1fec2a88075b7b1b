"""What Muri's published simulator charges (SIGCOMM 2022): for being simulated, and for sharing.

Every policy that is compared with its figures pays the same: 1.5 % on the time of a job alone,
and in every interval between two events the start-up seconds of its model. Sharing has its own
slowdowns, which stand on the interleaved time of the raw stages, so that the 1.5 % are not
charged twice.
"""

from collections.abc import Mapping
from typing import Final

from harmony_simulator.trace import TraceJob

ALONE_SLOWDOWN: Final = 1.015
SHARED_SLOWDOWN: Final = {2: 1.33 / 1.015, 3: 1.5 / 1.015, 4: 1.37 / 1.015}
"""By the number of jobs in a group."""

_WIDTHS: Final = (1, 2, 4, 8, 16, 32)
_STARTUP_SECONDS: Final[Mapping[str, tuple[float, ...]]] = {
    "vgg16": (7, 7, 8, 9, 9, 10),
    "vgg19": (7, 7, 8, 9, 10, 10),
    "resnet18": (4, 5, 5, 7, 7, 7),
    "shufflenet_v2_x1_0": (4, 4, 5, 5, 7, 8),
    "bert": (10, 10, 10, 10, 10, 10),
    "gpt2": (10, 10, 10, 10, 10, 10),
    "a2c": (38, 39, 39, 46, 46, 46),
    "dqn": (5, 5, 6, 6, 8, 8),
}
_STARTUP_SECONDS_OF_OTHERS: Final = 10.0


def startup_seconds(job: TraceJob) -> float:
    """Return what an interval costs a job; a width between two of the table counts as the next."""
    row = _STARTUP_SECONDS.get(job.model)
    if row is None:
        return _STARTUP_SECONDS_OF_OTHERS
    column = next((i for i, width in enumerate(_WIDTHS) if job.gpus <= width), len(row) - 1)
    return row[column]


def alone_seconds(job: TraceJob) -> float:
    """Return the charged time of one iteration of a job that shares with none."""
    return job.iteration_seconds * ALONE_SLOWDOWN
