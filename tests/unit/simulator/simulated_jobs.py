"""Jobs and runs of a simulation, written down shortly."""

from collections.abc import Sequence

from harmony_simulator.event_loop import simulate
from harmony_simulator.policy import Policy
from harmony_simulator.results import Result
from harmony_simulator.trace import Cluster, Stages, Trace, TraceJob

ALONE = 1.015
STARTUP_SECONDS = 10.0
ONE_NODE = Cluster(nodes=1, gpus_per_node=8)


def job(
    name: str,
    *,
    gpus: int = 1,
    submit: float = 0.0,
    seconds: float = 1000.0,
    load: float = 0.0,
    compute: float = 1.0,
    network: float = 0.0,
) -> TraceJob:
    """Return a job of iterations of one second, of no model that the charges know."""
    return TraceJob(
        id=name,
        gpus=gpus,
        submit_seconds=submit,
        iterations=seconds,
        model="unknown",
        iteration_seconds=1.0,
        stages=Stages(load, compute, network),
        known_duration_seconds=seconds,
    )


def run(jobs: Sequence[TraceJob], policy: Policy, cluster: Cluster = ONE_NODE) -> Result:
    return simulate(Trace.of(jobs), policy, cluster)


def finishes(result: Result) -> dict[str, float | None]:
    return {outcome.id: outcome.finish_seconds for outcome in result.outcomes}
