"""What an iteration of a job costs in this world, and what a sidecar measures of it.

A trace tells COMP and network seconds; the network stage is taken as PULL and PUSH of equal
length, as in a job that pulls and pushes whole models. Reading input is network time too: it
reaches a worker over its node's link.
"""

from functools import lru_cache
from random import Random
from typing import Final

from harmony_api.profile import JobProfile
from harmony_planner.triggers import ITERATIONS_FOR_A_PROFILE
from harmony_simulator.trace import TraceJob

MEASURED_ITERATIONS: Final = ITERATIONS_FOR_A_PROFILE
"""After so many iterations a job's profile is known."""
HINT_NOISE: Final = 0.2
"""Standard deviation of the logarithm of a hint over the truth."""


@lru_cache(maxsize=100_000)
def true_profile(job: TraceJob) -> JobProfile:
    """Return what an iteration really costs."""
    return _profile(job, compute_factor=1.0, network_factor=1.0, iterations=MEASURED_ITERATIONS)


@lru_cache(maxsize=100_000)
def measured_profile(job: TraceJob, seed: int, noise: float) -> JobProfile:
    """Return what is measured: each of COMP and NET is off by a factor, its own for each job."""
    return _off(job, Random(f"profile/{seed}/{job.id}"), noise, MEASURED_ITERATIONS)


@lru_cache(maxsize=100_000)
def hint(job: TraceJob, seed: int) -> JobProfile:
    """Return what the job's owner says in its manifest: from an earlier run, and less exact."""
    return _off(job, Random(f"hint/{seed}/{job.id}"), HINT_NOISE, 0)


def _off(job: TraceJob, random: Random, noise: float, iterations: int) -> JobProfile:
    return _profile(
        job,
        compute_factor=random.lognormvariate(0, noise),
        network_factor=random.lognormvariate(0, noise),
        iterations=iterations,
    )


def _profile(
    job: TraceJob, *, compute_factor: float, network_factor: float, iterations: int
) -> JobProfile:
    stages = job.stages
    transfer_seconds = (stages.network_seconds + stages.load_seconds) / 2
    return JobProfile(
        device_kind="cpu",
        iterations=iterations,
        compute_microseconds=round(stages.compute_seconds * compute_factor * 1e6),
        pull_microseconds=round(transfer_seconds * network_factor * 1e6),
        push_microseconds=round(transfer_seconds * network_factor * 1e6),
    )
