"""What sharing gains on parameter-server jobs, over slots of their own for every job.

The workload is that of `workload.generator` on 100 machines. Dedicated slots are a fair
baseline: every job gets all the slots that it asks for, as soon as they are free, in the order
of submission but without holding up jobs that fit, and keeps them to its end.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from harmony_simulator.cluster_world.conditions import Conditions
from harmony_simulator.results import Result
from harmony_simulator.runs import Run, run_all
from harmony_simulator.trace import Cluster
from harmony_simulator.workload.generator import Arrivals, Workload

MACHINES: Final = Cluster(nodes=100, gpus_per_node=1)
BASELINE: Final = "dedicated"
SHARING: Final = ("harmony-hints", "harmony", "naive", "partitions")


@dataclass(frozen=True)
class Ratios:
    """A policy's figures over those of dedicated slots, on one workload."""

    utilisation: float
    """COMP, over the whole cluster and the whole time until the last job has finished."""
    jct: float
    """Mean completion time."""
    makespan: float

    @classmethod
    def of(cls, result: Result, baseline: Result) -> "Ratios":
        """Raises ValueError where a job of either has not finished."""
        for one in (result, baseline):
            if one.unfinished:
                raise ValueError(f"{one.policy}: {one.unfinished[0].id} never finished")
        return cls(
            utilisation=result.mean_utilisation()[0] / baseline.mean_utilisation()[0],
            jct=result.mean_completion_seconds / baseline.mean_completion_seconds,
            makespan=result.makespan_seconds / baseline.makespan_seconds,
        )


def ps_ratios(
    arrivals: Arrivals,
    seeds: Sequence[int],
    *,
    policies: Sequence[str] = SHARING,
    processes: int | None = None,
    on_progress: Callable[[int], None] = lambda _: None,
) -> Mapping[str, list[Ratios]]:
    """Return the ratios of each policy, one for each seed; a seed is a workload and its noise."""
    names = (BASELINE, *policies)
    runs = [
        Run(
            trace=Workload(seed=seed, arrivals=arrivals).trace(),
            policy=name,
            cluster=MACHINES,
            conditions=Conditions(seed=seed),
        )
        for name in names
        for seed in seeds
    ]
    results = run_all(runs, processes=processes, on_progress=on_progress)
    of_policy = {
        name: results[index * len(seeds) : (index + 1) * len(seeds)]
        for index, name in enumerate(names)
    }
    return {
        name: [
            Ratios.of(result, baseline)
            for result, baseline in zip(of_policy[name], of_policy[BASELINE], strict=True)
        ]
        for name in policies
    }
