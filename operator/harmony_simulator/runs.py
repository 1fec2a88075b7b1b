"""Many simulations of one trace, in processes of their own.

A run is told by values that travel between processes, and each run is a function of them, so
how many processes there are changes nothing but the time.
"""

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass, field
from functools import partial
from multiprocessing import get_context
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal

from harmony_simulator.cluster_world import policies as cluster_world
from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.event_loop import simulate
from harmony_simulator.policies.harmony import Harmony
from harmony_simulator.policies.muri import muri_l, muri_s
from harmony_simulator.policies.single import Fifo, srsf, srtf
from harmony_simulator.policies.tiresias import Tiresias
from harmony_simulator.policy import Policy
from harmony_simulator.results import Result
from harmony_simulator.trace import Cluster, Trace

if TYPE_CHECKING:
    from multiprocessing.sharedctypes import SynchronizedArray

World = Literal["Harmony", "Muri"]
"""Where speeds come from: Harmony's model of phases, or the constants of Muri's simulator."""

_LOOK_EVERY_SECONDS: Final = 0.1
MURI_POLICIES: Final[Mapping[str, Callable[[], Policy]]] = MappingProxyType(
    {
        "fifo": Fifo,
        "srtf": srtf,
        "srsf": srsf,
        "tiresias": Tiresias,
        "muri-s": muri_s,
        "muri-l": muri_l,
        "harmony": partial(Harmony, durations_known=True),
        "harmony-unknown": partial(Harmony, durations_known=False),
    }
)


@dataclass(frozen=True, kw_only=True)
class Run:
    """One simulation."""

    trace: Trace
    policy: str
    cluster: Cluster
    world: World = "Harmony"
    conditions: Conditions = field(default_factory=Conditions)
    """Of Harmony's world; Muri's knows none."""


def policy_names(world: World) -> tuple[str, ...]:
    """Return the policies of a world."""
    return cluster_world.NAMES if world == "Harmony" else tuple(MURI_POLICIES)


def run_one(run: Run, on_finish: Callable[[int], None] = lambda _: None) -> Result:
    """Simulate; `on_finish` is told how many jobs have finished.

    Raises ValueError where the world has no such policy.
    """
    if run.policy not in policy_names(run.world):
        known = ", ".join(policy_names(run.world))
        raise ValueError(f"{run.policy} is no policy of {run.world}'s world, which has {known}")
    policy: Policy = (
        cluster_world.policy(run.policy, run.conditions)
        if run.world == "Harmony"
        else MURI_POLICIES[run.policy]()
    )
    return simulate(run.trace, policy, run.cluster, on_finish)


def run_all(
    runs: Sequence[Run],
    *,
    processes: int | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> list[Result]:
    """Return the results of all runs, in their order.

    `on_progress` is told now and then how many jobs have finished, over all runs. A process for
    each core where `processes` is None.
    """
    workers = min(len(runs), processes or os.cpu_count() or 1)
    if workers <= 1:
        return _one_after_the_other(runs, on_progress)
    context = get_context("forkserver")
    finished = context.Array("q", len(runs))
    pool = ProcessPoolExecutor(workers, context, initializer=_begin, initargs=(finished,))
    try:
        futures = [pool.submit(_run, run, index) for index, run in enumerate(runs)]
        pending: set[Future[Result]] = set(futures)
        while pending:
            done, pending = wait(pending, _LOOK_EVERY_SECONDS, FIRST_COMPLETED)
            on_progress(sum(finished[:]))
            for future in done:
                future.result()
        return [future.result() for future in futures]
    finally:
        pool.shutdown(cancel_futures=True)


def _one_after_the_other(runs: Sequence[Run], on_progress: Callable[[int], None]) -> list[Result]:
    results = []
    before = 0
    for run in runs:

        def tell(count: int, before: int = before) -> None:
            on_progress(before + count)

        results.append(run_one(run, tell))
        before += len(run.trace.jobs)
    return results


_finished: "SynchronizedArray[int] | None" = None
"""In a process of the pool: jobs that have finished, by run."""


def _begin(finished: "SynchronizedArray[int]") -> None:
    global _finished  # noqa: PLW0603
    _finished = finished


def _run(run: Run, index: int) -> Result:
    def tell(count: int) -> None:
        if _finished is not None:
            _finished[index] = count

    return run_one(run, tell)
