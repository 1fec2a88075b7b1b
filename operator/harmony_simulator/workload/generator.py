"""A workload of parameter-server jobs, in the manner of the evaluation of Harmony (ICDCS 2021).

There, 80 jobs are four applications, each on two data sets with ten settings, on 100 machines.
Here the applications are the project's examples. By stated rules:

- A setting is a measured one, five per application, and comes twice.
- A job has WORKERS workers, one per slot: ten jobs side by side fill 100 machines without a gap,
  so jobs that share none are at no disadvantage. How many they are does not change an iteration:
  every worker keeps the measured batch, and servers grow with the workers.
- An iteration shorter than LEAST_ITERATION_SECONDS is doubled until it is not, COMP and NET
  alike: on a cluster batches and models are larger than on the small machine where the examples
  were measured. The ratio of COMP to NET is the measured one.
- The data set gives the time that a job takes alone, spread evenly around its mean; that fixes
  the number of iterations.
- Jobs come in random order, all at once or as a Poisson process.
"""

from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

from harmony_simulator.trace import Stages, Trace, TraceJob
from harmony_simulator.workload.examples import Setting, measured_settings

Arrivals = Literal["AtOnce", "Poisson"]

WORKERS: Final = 10
LEAST_ITERATION_SECONDS: Final = 0.25
SPREAD: Final = 0.5
"""A job alone takes from 1 - SPREAD to 1 + SPREAD times its data set's mean."""


@dataclass(frozen=True, kw_only=True)
class Workload:
    """How many jobs of what kind come when."""

    seed: int = 1
    jobs: int = 80
    arrivals: Arrivals = "AtOnce"
    interarrival_seconds: float = 120.0
    """Mean, where arrivals are Poisson."""
    widths: tuple[int, ...] = (WORKERS,)
    """Workers of a job: each of these in turn."""
    data_sets: tuple[float, ...] = (1200.0, 3600.0)
    """Mean seconds that a job takes alone."""
    settings: tuple[Setting, ...] = field(default_factory=measured_settings)

    def __post_init__(self) -> None:
        if self.jobs < 1:
            raise ValueError(f"a workload has at least one job, not {self.jobs}")
        if not self.interarrival_seconds > 0:
            raise ValueError(f"jobs come apart by more than {self.interarrival_seconds:g} s")

    def trace(self) -> Trace:
        """Return the jobs. The same workload gives the same trace."""
        random = Random(f"workload/{self.seed}")
        kinds = [
            (setting, width, seconds)
            for setting in self.settings
            for width in self.widths
            for seconds in self.data_sets
        ]
        rounds = -(-self.jobs // len(kinds))
        drawn = [kind for _ in range(rounds) for kind in random.sample(kinds, len(kinds))]
        submit_seconds = 0.0
        jobs = []
        for number, kind in enumerate(drawn[: self.jobs]):
            jobs.append(_job(f"job-{number:03}", kind, submit_seconds, random))
            if self.arrivals == "Poisson":
                submit_seconds += random.expovariate(1 / self.interarrival_seconds)
        return Trace.of(jobs)


def _job(
    id_: str, kind: tuple[Setting, int, float], submit_seconds: float, random: Random
) -> TraceJob:
    setting, width, mean_seconds = kind
    scale = 1
    while setting.iteration_seconds * scale < LEAST_ITERATION_SECONDS:
        scale *= 2
    seconds = setting.iteration_seconds * scale
    iterations = round(mean_seconds * random.uniform(1 - SPREAD, 1 + SPREAD) / seconds)
    return TraceJob(
        id=id_,
        gpus=width,
        submit_seconds=submit_seconds,
        iterations=max(1, iterations),
        model=setting.application,
        iteration_seconds=seconds,
        stages=Stages(
            load_seconds=0.0,
            compute_seconds=setting.compute_seconds * scale,
            network_seconds=setting.network_seconds * scale,
        ),
        known_duration_seconds=max(1, iterations) * seconds,
    )
