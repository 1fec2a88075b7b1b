"""What sharing is worth: jobs alone, left to fight, in strict turns, and under Harmony.

Every mix of jobs runs four times in each round: dedicated (one job after the other, no
permits), naive (all at once, no permits), fixed alternation (permits in strict order, nobody
skipped) and Harmony. Workers and servers are on two sides of a link of known bandwidth, and
the jobs of a mix share one core for compute; servers, sidecars and transfers have another.
A job's C and N come from the dedicated run of the same round, and so does the bound: no
schedule of those phases is faster where PULL and PUSH share the link. (The link is full
duplex, so a network-heavy mix can beat that bound.)

Jobs left to fight keep the phase in which they started: at the same moment, they collide in
every phase, half an iteration apart hardly ever. So each starts at a moment of its own, within
the first iteration, drawn anew in each round and the same for all ways.

Jobs of one kind differ in nothing but their name, so one of each kind runs alone.
"""

import os
import random
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Final

import yaml

from colocation_picture import draw
from harmony_api.profile import JobProfile
from harmony_cli.local import run_folder
from harmony_cli.local.link import LinkError
from harmony_cli.local.placement import Permits
from harmony_cli.local.runner import LocalRunner, RunOptions, View
from harmony_cli.local.slots import Machine, divide_cpus
from harmony_cli.manifest import load_manifests
from harmony_cli.report.bound import Load, bound_seconds
from harmony_cli.report.figures import summarise
from harmony_cli.report.run_folder import read_run
from harmony_cli.report.summary import RunSummary
from harmony_cli.run_record import Mode
from harness import Figure, environment, parse_options, report
from job_mixes import LINK_MEGABITS, Kind, Mix, blocked_pair, build_manifest, counted_mixes

PICTURE: Final = Path(__file__).parents[1] / "docs" / "pictures" / "colocation.png"
ITERATIONS: Final = 80
QUICK_ITERATIONS: Final = 20
CALIBRATION_ITERATIONS: Final = 12
SAMPLES_TIMES_MEGABYTES_PER_MILLISECOND: Final = 80
"""A first guess at what one core computes."""
BLOCKED: Final = "blocked_pair"
HARMONY: Final = "harmony"
ALL_AT_ONCE: Final[Mapping[str, tuple[Mode, Permits]]] = {
    "naive": ("naive", "None"),
    "fixed_alternation": ("shared", "FixedAlternation"),
    HARMONY: ("shared", "Cyclic"),
}
DEDICATED: Final = "dedicated"
WAYS: Final = (DEDICATED, *ALL_AT_ONCE)


@dataclass(frozen=True)
class Round:
    """One round of a mix."""

    profiles: Mapping[str, JobProfile]
    """Of every kind's first job, alone."""
    alone_seconds: float
    """All jobs, one after the other."""
    bound_seconds: float
    together_seconds: Mapping[str, float]
    """From the first turn to the last, by way of sharing."""
    predicted_cycle_seconds: float
    measured_cycle_seconds: float

    def seconds(self, way: str) -> float:
        """Time to finish all jobs."""
        return self.alone_seconds if way == DEDICATED else self.together_seconds[way]

    def speedup_over(self, way: str) -> float:
        """How much faster Harmony is than another way."""
        return self.seconds(way) / self.seconds(HARMONY)

    @property
    def prediction_error(self) -> float:
        """Relative to the measured cycle."""
        return abs(self.predicted_cycle_seconds / self.measured_cycle_seconds - 1)


class Bench:
    """Runs mixes on this machine."""

    def __init__(self, machine: Machine, folder: Path) -> None:
        self._machine = machine
        self._folder = folder
        self._batch_sizes: dict[tuple[int, int], int] = {}
        self._runs = 0

    def round(self, mix: Mix, chance: random.Random) -> Round:
        """Run a mix in every way, one after the other."""
        self._calibrate(mix)
        first = mix.one_of_each_kind()
        alone = self._run(first, {}, {}, "dedicated", "None")
        seconds = {first[job.name]: job.training_seconds for job in alone.jobs}
        profiles = {first[job.name]: job.profile for job in alone.jobs if job.profile}
        of_jobs = {name: profiles[kind] for name, kind in mix.jobs.items()}
        loads = [
            Load.of(profiles[kind], kind.iterations, kind.rounds, "HalfDuplex")
            for kind in mix.jobs.values()
        ]
        phases = starting_phases(len(mix.jobs), chance)
        delays = {
            name: phase * of_jobs[name].iteration_seconds
            for name, phase in zip(mix.jobs, phases, strict=True)
        }
        together = {
            way: self._run(mix.jobs, of_jobs, delays, mode, permits)
            for way, (mode, permits) in ALL_AT_ONCE.items()
        }
        groups = together[HARMONY].groups
        planned = groups[0]
        same = [group for group in groups if group.jobs == planned.jobs]
        steady = max(same, key=lambda group: group.window_seconds)
        assert planned.predicted_cycle_seconds
        assert steady.measured_cycle_seconds
        return Round(
            profiles={name: profiles[kind] for name, kind in first.items()},
            alone_seconds=sum(seconds[kind] for kind in mix.jobs.values()),
            bound_seconds=bound_seconds(loads),
            together_seconds={way: run.makespan_seconds for way, run in together.items()},
            predicted_cycle_seconds=planned.predicted_cycle_seconds,
            measured_cycle_seconds=steady.measured_cycle_seconds,
        )

    def _run(
        self,
        jobs: Mapping[str, Kind],
        profiles: Mapping[str, JobProfile],
        delays: Mapping[str, float],
        mode: Mode,
        permits: Permits,
    ) -> RunSummary:
        self._runs += 1
        folder = self._folder / f"run-{self._runs}"
        expected = 1 if mode == "dedicated" else len(jobs)
        gate = self._folder / f"gate-{self._runs}"
        documents = [
            build_manifest(
                name,
                kind,
                profiles.get(name),
                [
                    f"--batch-size={self._batch_sizes[kind.costs]}",
                    f"--gate={gate}",
                    f"--jobs={expected}",
                    f"--delay={delays.get(name, 0.0)}",
                ],
            )
            for name, kind in jobs.items()
        ]
        manifests = self._folder / f"run-{self._runs}.yaml"
        manifests.write_text(yaml.safe_dump_all(documents))
        options = RunOptions(
            run_folder=folder,
            mode=mode,
            machine=self._machine,
            network="FullDuplex",
            permits=permits,
            link_mbit=LINK_MEGABITS,
        )
        runner = LocalRunner(
            run_folder.create(folder, load_manifests([manifests])), options, View()
        )
        record = runner.run()
        if runner.stopping:
            raise KeyboardInterrupt
        for job in record.jobs:
            if job.state != "Succeeded":
                raise RuntimeError(f"{job.name} did not succeed ({mode}): {job.message}")
        return summarise(read_run(folder))

    def _calibrate(self, mix: Mix) -> None:
        """Find the batches with which COMP takes each kind's time, by a short run alone."""
        new = {
            name: replace(kind, iterations=CALIBRATION_ITERATIONS)
            for name, kind in mix.one_of_each_kind().items()
            if kind.costs not in self._batch_sizes
        }
        for kind in new.values():
            guess = SAMPLES_TIMES_MEGABYTES_PER_MILLISECOND * kind.compute_milliseconds
            self._batch_sizes[kind.costs] = round(guess / kind.megabytes)
        if not new:
            return
        for job in self._run(new, {}, {}, "dedicated", "None").jobs:
            assert job.profile
            kind = new[job.name]
            scale = kind.compute_milliseconds / 1e3 / job.profile.compute_seconds
            self._batch_sizes[kind.costs] = round(scale * self._batch_sizes[kind.costs])


def starting_phases(count: int, chance: random.Random) -> list[float]:
    """Return at which part of an iteration each job starts, drawn at random; the first at 0.

    Only differences count, and only their fractions: so the longest time between two starts
    is left out, and all have started soon.
    """
    phases = sorted(chance.random() for _ in range(count))
    gaps = [phase - before for before, phase in pairwise([phases[-1] - 1, *phases])]
    first = gaps.index(max(gaps))
    return [(phase - phases[first]) % 1 for phase in (*phases[first:], *phases[:first])]


def figures(measured: Mapping[str, Sequence[Round]]) -> list[Figure]:
    """Summarise all rounds of all mixes."""
    found = []
    for mix, rounds in measured.items():
        name = f"colocation.{mix}"
        found += [
            *(
                Figure.of(f"{name}.speedup_over_{way}", [r.speedup_over(way) for r in rounds])
                for way in WAYS
                if way != HARMONY
            ),
            Figure.of(
                f"{name}.time_over_bound", [r.seconds(HARMONY) / r.bound_seconds for r in rounds]
            ),
            Figure.of(f"{name}.prediction_error", [r.prediction_error for r in rounds]),
        ]
    counted = {name: rounds for name, rounds in measured.items() if name != BLOCKED}
    per_round = list(zip(*counted.values(), strict=True))
    found.append(
        Figure.of(
            "colocation.worst_speedup_over_naive",
            [min(r.speedup_over("naive") for r in mixed) for mixed in per_round],
        )
    )
    found.append(
        Figure.of(
            "colocation.cycle_prediction_error",
            [max(r.prediction_error for r in mixed) for mixed in per_round],
        )
    )
    return found


def main() -> None:
    options = parse_options("Jobs that share a machine, in four ways.", rounds=2)
    where = environment("torch") | {"link": f"{LINK_MEGABITS} Mbit/s"}
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 2:
        sys.exit("colocation.py needs two cores: one to compute, one for transfers and servers")
    machine = divide_cpus([cores[0], cores[-1]], 1)  # on the usual numbering, no siblings
    if options.quick:
        chosen = counted_mixes(QUICK_ITERATIONS)[:1]
    else:
        chosen = [*counted_mixes(ITERATIONS), blocked_pair(ITERATIONS)]
    measured: dict[str, list[Round]] = {mix.name: [] for mix in chosen}
    with tempfile.TemporaryDirectory(prefix="harmony-colocation-") as folder:
        bench = Bench(machine, Path(folder))
        for number in range(options.rounds):
            chance = random.Random(number)
            for mix in chosen:
                print(f"round {number + 1}, {mix.name}: ", end="", flush=True)
                try:
                    measured[mix.name].append(bench.round(mix, chance))
                except LinkError as error:
                    sys.exit(f"colocation.py: {error}")
                print(describe(measured[mix.name][-1]), flush=True)
    report(
        "colocation",
        figures(measured),
        options,
        where=where,
        details={"mixes": {n: [as_json(r) for r in rounds] for n, rounds in measured.items()}},
    )
    if not options.quick:
        times = {
            mix: {way: [r.seconds(way) / r.bound_seconds for r in rounds] for way in WAYS}
            for mix, rounds in measured.items()
        }
        draw(times, PICTURE)


def describe(measured: Round) -> str:
    """One line for whoever waits."""
    ways = ", ".join(f"{way} {s:.2f} s" for way, s in measured.together_seconds.items())
    cycles = (
        f"{measured.predicted_cycle_seconds * 1e3:.0f}/{measured.measured_cycle_seconds * 1e3:.0f}"
    )
    kinds = ", ".join(
        f"C {p.compute_seconds * 1e3:.0f} N {p.network_seconds * 1e3:.0f}"
        for p in measured.profiles.values()
    )
    return (
        f"alone {measured.alone_seconds:.2f} s, {ways}, bound {measured.bound_seconds:.2f} s; "
        f"cycle predicted/measured {cycles} ms ({kinds} ms)"
    )


def as_json(measured: Round) -> dict[str, object]:
    """A round as JSON values."""
    profiles = {name: p.model_dump(by_alias=True) for name, p in measured.profiles.items()}
    return asdict(measured) | {"profiles": profiles}


if __name__ == "__main__":
    main()
