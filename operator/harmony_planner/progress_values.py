"""What a second of a job's progress is worth to all jobs, when GPUs are shared in groups.

Strict priority to the job that ends first is best where jobs run one after the other. Members
of a group advance together, and then most of what is gained is the pace of all: so a job's width
counts first, and its place in line and the nearness of its end moderately. The weights were
chosen on published traces and on copies of them with jobs shifted and scaled at random.
"""

from collections.abc import Sequence
from typing import Final

_WIDTH_EXPONENT: Final = 0.75
"""Between one, where every GPU counts alike, and zero, where every job does."""
_ORDER_WORTH: Final = 0.5
"""Of a job with all others behind it, relative to the width's."""
_RATE_WORTH: Final = 0.1
"""Of a job that takes the mean time, relative to the width's."""


def in_line(gpus: Sequence[int], completion_rates: Sequence[float]) -> list[int]:
    """Return the positions of the jobs, whoever completes most per GPU and second first."""
    return sorted(range(len(gpus)), key=lambda job: -completion_rates[job] / gpus[job])


def progress_values(gpus: Sequence[int], completion_rates: Sequence[float]) -> list[float]:
    """Return the value of each job, in no unit: only ratios matter.

    `completion_rates` are the finishes per second of work that each job promises: one over its
    remaining seconds where they are known, else an estimate.
    """
    if not gpus:
        return []
    mean_seconds = sum(1 / rate for rate in completion_rates) / len(gpus)
    behind = {
        job: len(gpus) - 1 - place for place, job in enumerate(in_line(gpus, completion_rates))
    }
    return [
        width**_WIDTH_EXPONENT
        * (1 + _ORDER_WORTH * behind[job] / len(gpus) + _RATE_WORTH * (rate * mean_seconds) ** 0.5)
        for job, (width, rate) in enumerate(zip(gpus, completion_rates, strict=True))
    ]
