"""How good the planner's plans are, and how long they take.

Quality: random instances of up to 10 jobs against the exact optimum of the same objective (see
docs/planning.md); the gap is the part of the best value that the plan lacks. Scale: 10,000 jobs
on 1,000 nodes of 8 GPUs. The full plan begins from nothing and has nothing remembered; the
incremental ones follow it, each after one finish or one arrival and carried out before the next.
The growth exponent is the slope of the full plan's seconds over the number of jobs, both
logarithmic, from 100 to 100,000 jobs (10,000 with --quick). Memory is that of the process after
the plans of 10,000 jobs, measured in a process of its own, as is each full plan.
"""

import multiprocessing
import random
import resource
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from math import log
from typing import TypeVar

from harmony_planner.exact import best_value
from harmony_planner.grouping import RUNNING_COUNTS
from harmony_planner.planner import plan
from harmony_planner.remembered import Remembered
from harmony_planner.snapshot import Plan
from harness import Figure, environment, parse_options, report
from planner_instances import arrivals, carried_out, large, small

INSTANCES, QUICK_INSTANCES = 300, 40
SIZES, QUICK_SIZES = (100, 1_000, 10_000, 100_000), (100, 1_000, 10_000)
JOBS = 10_000
EVENTS, QUICK_EVENTS = 200, 40

_Result = TypeVar("_Result")


@dataclass(frozen=True)
class Incremental:
    """What the plans after the full one took."""

    seconds: Sequence[float]
    rss_bytes: float
    speed: float
    """Total of the first plan, in jobs at their own speed."""


def main() -> int:
    options = parse_options(__doc__ or "", rounds=3)
    seeds = range(QUICK_INSTANCES if options.quick else INSTANCES)
    sizes = QUICK_SIZES if options.quick else SIZES
    events = QUICK_EVENTS if options.quick else EVENTS
    full = [{size: apart(full_plan_seconds, size) for size in sizes} for _ in range(options.rounds)]
    incremental = [apart(incremental_plans, JOBS, events) for _ in range(options.rounds)]
    gaps = [optimality_gap(seed) for seed in seeds]
    cuts = [statistics.quantiles(one.seconds, n=100) for one in incremental]
    figures = [
        Figure.of("planner.mean_optimality_gap", [statistics.fmean(gaps)]),
        Figure.of("planner.worst_optimality_gap", [max(gaps)]),
        *(
            Figure.of(f"planner.full_{_short(size)}_jobs_seconds", [one[size] for one in full], "s")
            for size in sizes
        ),
        Figure.of("planner.growth_exponent", [exponent(one) for one in full]),
        Figure.of("planner.incremental_10k_jobs_p50_seconds", [one[49] for one in cuts], "s"),
        Figure.of("planner.incremental_10k_jobs_p95_seconds", [one[94] for one in cuts], "s"),
        Figure.of("planner.rss_10k_jobs_bytes", [one.rss_bytes for one in incremental], "B"),
        Figure.of("planner.full_10k_jobs_speed", [one.speed for one in incremental]),
    ]
    report("planner", figures, options, where=environment("pydantic"), details={"gaps": gaps})
    return 0


def apart(measure: Callable[..., _Result], *arguments: int) -> _Result:
    """Measure in a new process, in which nothing is remembered yet."""
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure, *arguments).result()


def full_plan_seconds(jobs: int) -> float:
    snapshot = large(jobs)
    started = time.perf_counter()
    plan(snapshot)
    return time.perf_counter() - started


def incremental_plans(jobs: int, events: int) -> Incremental:
    remembered = Remembered()
    snapshot = large(jobs)
    first = plan(snapshot, remembered)
    snapshot = carried_out(snapshot, first)
    plan(snapshot, remembered)
    draw = random.Random(1)
    seconds = []
    for event, newcomer in enumerate(arrivals(events, seed=1, first=jobs)):
        if event % 2:
            snapshot = replace(snapshot, jobs=(*snapshot.jobs, newcomer))
        else:
            gone = draw.choice([job for job in snapshot.jobs if job.current_group is not None])
            left = tuple(job for job in snapshot.jobs if job is not gone)
            snapshot = replace(snapshot, jobs=left)
        started = time.perf_counter()
        decision = plan(snapshot, remembered)
        seconds.append(time.perf_counter() - started)
        snapshot = carried_out(snapshot, decision)
    rss_bytes = 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return Incremental(seconds, rss_bytes, speed(first))


def optimality_gap(seed: int) -> float:
    snapshot = small(seed)
    decision = plan(snapshot)
    jobs = sum(len(group.members) for group in decision.groups)
    best = best_value(snapshot)
    return max(0.0, 1 - (speed(decision) + RUNNING_COUNTS * jobs) / best)


def speed(decision: Plan) -> float:
    return sum(group.prediction.speedup for group in decision.groups if group.prediction)


def exponent(seconds: dict[int, float]) -> float:
    """Return the slope of a line through the logarithms."""
    sizes = [log(size) for size in seconds]
    return statistics.linear_regression(sizes, [log(one) for one in seconds.values()]).slope


def _short(size: int) -> str:
    return f"{size // 1000}k" if size >= 1000 else str(size)


if __name__ == "__main__":
    raise SystemExit(main())
