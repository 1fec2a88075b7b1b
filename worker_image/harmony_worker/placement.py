"""Where a worker's threads run.

On a CPU slot the compute threads keep to the slot's cores and the transfer threads to others,
so that one job's transfers never slow another job's compute. A set of cores travels as a list
such as `0,2-3`, the form that Linux itself uses.
"""

import os
from pathlib import Path


def parse_cpu_list(text: str) -> frozenset[int]:
    """Return the cores of a list such as `0,2-3`; raises ValueError for anything else."""
    cpus: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"{text!r} is not a list of cores such as 0,2-3")
        cpus.update(range(int(first), int(last or first) + 1))
    return frozenset(cpus)


def pin_process(cpus: frozenset[int]) -> None:
    """Pin every thread of this process, and those it starts from now on, to `cpus`.

    All threads, because an OpenMP pool that has started already keeps its old cores.
    """
    for task in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(task.name), cpus)
        except ProcessLookupError:
            continue
