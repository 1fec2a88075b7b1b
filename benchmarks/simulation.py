"""Harmony against the published schedulers, on their own traces and under their own charges.

First the event loop is shown to be theirs: SRTF, SRSF and Tiresias against the figures of Muri's
simulator. Then Harmony chooses who runs and with whom, where every slowdown, start-up and event
is charged as Muri's are: with known durations against Muri-S, without against Muri-L, over the
published figures. Last come parameter-server jobs in Harmony's own model, against slots of their
own for every job. Nothing here is timed. A round is another order of ties, the first the order
of arrival, since ties move the results of every policy that groups, and another workload of
parameter-server jobs. The published traces are read from the folder that HARMONY_SHARED_DATA
names, else from ../shared/data.
"""

import os
import random
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harmony_simulator.event_loop import simulate
from harmony_simulator.experiments import ps_ratios
from harmony_simulator.formats import muri
from harmony_simulator.policy import Decision, JobState, Policy, Simultaneity
from harmony_simulator.runs import MURI_POLICIES
from harmony_simulator.trace import Cluster
from harmony_simulator.workload.generator import Arrivals
from harness import Figure, Options, environment, parse_options, report

DATA: Final = Path(
    os.environ.get("HARMONY_SHARED_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
)
CLUSTER: Final = Cluster(nodes=8, gpus_per_node=8)
POLICIES: Final = {
    "SRTF": "srtf",
    "SRSF": "srsf",
    "Tiresias": "tiresias",
    "Muri-S": "muri-s",
    "Muri-L": "muri-l",
    "Harmony": "harmony",
    "Harmony, durations unknown": "harmony-unknown",
}
"""What the simulator calls them."""
KNOWN, UNKNOWN = "Harmony", "Harmony, durations unknown"


@dataclass(frozen=True)
class Outcome:
    """Mean completion time and makespan, in seconds."""

    jct: float
    makespan: float | None = None
    """None where it was not published."""


PUBLISHED: Final = {
    ("SRTF", "trace3"): Outcome(193_082),
    ("SRTF", "cluster_trace"): Outcome(247_453, 4_066_820),
    ("SRTF", "trace3_pr"): Outcome(844_395, 7_261_796),
    ("SRSF", "trace3"): Outcome(185_022),
    ("SRSF", "cluster_trace"): Outcome(233_909, 4_198_587),
    ("SRSF", "trace3_pr"): Outcome(798_058, 6_907_790),
    ("Tiresias", "trace3"): Outcome(347_213),
    ("Tiresias", "cluster_trace"): Outcome(328_737, 3_991_729),
    ("Tiresias", "trace3_pr"): Outcome(2_213_110, 6_761_641),
    ("Muri-S", "trace3"): Outcome(83_242),
    ("Muri-S", "cluster_trace"): Outcome(120_034, 2_663_199),
    ("Muri-S", "trace3_pr"): Outcome(540_358, 4_495_394),
    ("Muri-L", "trace3"): Outcome(88_687),
    ("Muri-L", "cluster_trace"): Outcome(127_846, 2_671_191),
    ("Muri-L", "trace3_pr"): Outcome(913_980, 4_351_395),
}
"""Of Muri's simulator, run unchanged (Rivendile/Muri, SIGCOMM 2022)."""

PLAIN: Final = ("SRTF", "SRSF", "Tiresias")
TRACES: Final = ("trace3", "cluster_trace", "trace3_pr")
QUICK_TRACES: Final = TRACES[:2]
ARRIVALS: Final[tuple[Arrivals, ...]] = ("AtOnce", "Poisson")
JOB_TYPES: Final = ("job_type_1", "job_type_2", "job_type_4")


@dataclass(frozen=True)
class Run:
    """One simulation; `order` numbers the order of ties."""

    policy: str
    trace: str
    order: int = 0


class Shuffled:
    """A policy whose ties fall in a random order, the same at every event."""

    def __init__(self, policy: Policy, seed: int) -> None:
        self._policy = policy
        self._random = random.Random(seed)
        self._places: dict[str, float] = {}

    @property
    def name(self) -> str:
        """The policy's own."""
        return self._policy.name

    @property
    def simultaneity(self) -> Simultaneity:
        """The policy's own."""
        return self._policy.simultaneity

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:
        """Decide over the jobs in that order."""
        for state in active:
            self._places.setdefault(state.job.id, self._random.random())
        order = sorted(active, key=lambda state: self._places[state.job.id])
        return replace(self._policy.decide(now_seconds, order, cluster), order=active)


def main() -> int:
    options = parse_options(__doc__ or "", rounds=3)
    if not DATA.is_dir():
        print(f"no published traces in {DATA}: HARMONY_SHARED_DATA names their folder")
        return 1
    traces = QUICK_TRACES if options.quick else TRACES
    runs = [Run(policy, trace) for trace in traces for policy in (*PLAIN, "Muri-S", "Muri-L")]
    orders = range(options.rounds)
    runs += [Run(policy, t, o) for t in traces for policy in (KNOWN, UNKNOWN) for o in orders]
    if not options.quick:
        runs += [Run(policy, kinds) for kinds in JOB_TYPES for policy in ("SRSF", KNOWN)]
    runs.sort(key=lambda run: (run.trace != "trace3_pr", run.policy not in (KNOWN, UNKNOWN)))
    with ProcessPoolExecutor() as pool:
        found = dict(zip(runs, pool.map(outcome, runs), strict=True))
    figures = [
        Figure.of("simulation.worst_fidelity_error", [worst_error(PLAIN, found)]),
        Figure.of("simulation.worst_error_of_muri", [worst_error(("Muri-S", "Muri-L"), found)]),
    ]
    for trace in traces:
        for ours, theirs in ((KNOWN, "Muri-S"), (UNKNOWN, "Muri-L")):
            published = PUBLISHED[theirs, trace]
            mine = [found[Run(ours, trace, order)] for order in orders]
            over = f"over_{theirs.lower().replace('-', '_')}"
            jct = [one.jct / published.jct for one in mine]
            figures.append(Figure.of(f"simulation.{trace}.jct_{over}", jct))
            if published.makespan is not None:
                makespan = [(one.makespan or 0.0) / published.makespan for one in mine]
                figures.append(Figure.of(f"simulation.{trace}.makespan_{over}", makespan))
    for kinds in () if options.quick else JOB_TYPES:
        ratio = found[Run(KNOWN, kinds)].jct / found[Run("SRSF", kinds)].jct
        figures.append(Figure.of(f"simulation.{kinds}.jct_over_srsf", [ratio]))
    figures += ps_figures(options)
    report("simulation", figures, options, where=environment("numpy", "rustworkx"))
    return 0


def outcome(run: Run) -> Outcome:
    """Simulate; raises RuntimeError where a job never finished."""
    policy = MURI_POLICIES[POLICIES[run.policy]]()
    if run.order:
        policy = Shuffled(policy, run.order)
    result = simulate(muri.read_trace(DATA / "muri" / f"{run.trace}.csv"), policy, CLUSTER)
    if result.unfinished:
        raise RuntimeError(f"{run}: {result.unfinished[0].reason}")
    return Outcome(result.mean_completion_seconds, result.makespan_seconds)


def ps_figures(options: Options) -> list[Figure]:
    """Parameter-server jobs that share slots by Harmony's model, over slots of their own.

    The figures without a policy's name are Harmony's where jobs carry hints of their profiles.
    """
    figures = []
    for arrivals in ARRIVALS[:1] if options.quick else ARRIVALS:
        ratios = ps_ratios(arrivals, range(1, options.rounds + 1))
        workload = "ps" if arrivals == ARRIVALS[0] else f"ps_{arrivals.lower()}"
        for policy, found in ratios.items():
            of_policy = "" if policy == "harmony-hints" else f".{policy}"
            for name in ("utilisation", "jct", "makespan"):
                values = [getattr(one, name) for one in found]
                figures.append(
                    Figure.of(f"simulation.{workload}{of_policy}.{name}_over_dedicated", values)
                )
    return figures


def worst_error(policies: Sequence[str], found: Mapping[Run, Outcome]) -> float:
    """Return the largest relative distance of a simulated figure from the published one."""
    errors = []
    for run, mine in found.items():
        if run.policy in policies and run.order == 0:
            published = PUBLISHED.get((run.policy, run.trace))
            if published is not None:
                errors.append(abs(mine.jct / published.jct - 1))
                if published.makespan is not None:
                    errors.append(abs((mine.makespan or 0.0) / published.makespan - 1))
    return max(errors)


if __name__ == "__main__":
    sys.exit(main())
