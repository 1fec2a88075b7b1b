"""What every benchmark shares: arguments, medians over rounds, bounds, the table and the JSON.

A benchmark measures, the harness reports: the table comes last on standard output and marks
the figures that fall short of their bound, and the exit status is 0 all the same. It is
non-zero only when the benchmark could not run.
"""

import argparse
import json
import os
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import metadata
from pathlib import Path
from typing import Final, Literal

from rich.console import Console
from rich.table import Table

Comparison = Literal["<=", ">="]

BOUNDS: Final[Mapping[str, tuple[Comparison, float]]] = {
    "colocation.balanced_pair.speedup_over_dedicated": (">=", 1.7),
    "colocation.balanced_pair.speedup_over_naive": (">=", 1.02),
    "colocation.balanced_pair.time_over_bound": ("<=", 1.05),
    "colocation.unequal_pair.time_over_bound": ("<=", 1.08),
    "colocation.unequal_pair.speedup_over_naive": (">=", 1.02),
    "colocation.balanced_four.time_over_bound": ("<=", 1.08),
    "colocation.worst_speedup_over_naive": (">=", 0.98),
    "colocation.cycle_prediction_error": ("<=", 0.10),
    "handoff.p50_seconds": ("<=", 50e-6),
    "handoff.p99_seconds": ("<=", 500e-6),
    "handoff.alone_overhead": ("<=", 0.01),
    "handoff.sidecar_rss_bytes": ("<=", 48 * 2**20),
    "parameter_server.push_over_socket_40mb": (">=", 0.7),
    "parameter_server.pull_over_socket_40mb": (">=", 0.7),
    "operator.create_to_pods_p50_seconds": ("<=", 1.0),
    "operator.create_to_pods_p99_seconds": ("<=", 5.0),
    "operator.rss_bytes": ("<=", 300 * 2**20),
    "operator.steady_state_writes": ("<=", 0),
    "planner.mean_optimality_gap": ("<=", 0.02),
    "planner.worst_optimality_gap": ("<=", 0.08),
    "planner.full_10k_jobs_seconds": ("<=", 2.0),
    "planner.incremental_10k_jobs_p50_seconds": ("<=", 0.05),
    "planner.growth_exponent": ("<=", 1.2),
    "simulation.worst_fidelity_error": ("<=", 0.005),
    "simulation.trace3.jct_over_muri_s": ("<=", 0.85),
    "simulation.trace3.jct_over_muri_l": ("<=", 0.85),
    "simulation.cluster_trace.jct_over_muri_s": ("<=", 0.85),
    "simulation.cluster_trace.jct_over_muri_l": ("<=", 0.85),
    "simulation.cluster_trace.makespan_over_muri_l": ("<=", 0.98),
    "simulation.trace3_pr.makespan_over_muri_l": ("<=", 0.9),
    "simulation.job_type_1.jct_over_srsf": ("<=", 1.0),
    "simulation.job_type_2.jct_over_srsf": ("<=", 1.0),
    "simulation.job_type_4.jct_over_srsf": ("<=", 1.0),
    "simulation.ps.utilisation_over_dedicated": (">=", 1.7),
    "simulation.ps.jct_over_dedicated": ("<=", 0.4),
    "simulation.ps.makespan_over_dedicated": ("<=", 0.55),
}
"""What a figure must reach on a machine that is otherwise idle; a figure may have none."""


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    quick: bool
    """Fewer and shorter measurements: under a minute where the work allows."""
    rounds: int
    json_path: Path | None


@dataclass(frozen=True)
class Figure:
    """One measured number: the median over rounds, with the smallest and the largest."""

    name: str
    value: float
    unit: str
    """`s`, `B`, `B/s`, or empty for a ratio."""
    spread: tuple[float, float]

    @classmethod
    def of(cls, name: str, values: Sequence[float], unit: str = "") -> "Figure":
        """Summarise one value per round; raises ValueError when there is none."""
        if not values:
            raise ValueError(f"no value was measured for {name}")
        return cls(name, statistics.median(values), unit, (min(values), max(values)))

    @property
    def reached(self) -> bool | None:
        """Whether the figure keeps its bound; None when it has none."""
        if self.name not in BOUNDS:
            return None
        comparison, bound = BOUNDS[self.name]
        return self.value <= bound if comparison == "<=" else self.value >= bound


def parse_options(description: str, *, rounds: int, quick_rounds: int = 1) -> Options:
    """Read --quick, --rounds and --json; the defaults of --rounds are the benchmark's."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--quick", action="store_true", help="fewer, shorter measurements")
    parser.add_argument(
        "--rounds", type=int, help=f"default {rounds}, or {quick_rounds} with --quick"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    default = quick_rounds if given.quick else rounds
    chosen = default if given.rounds is None else given.rounds
    if chosen < 1:
        parser.error("--rounds must be at least 1")
    return Options(quick=given.quick, rounds=chosen, json_path=given.json)


def environment(*distributions: str) -> dict[str, str | int]:
    """The machine and the software, with the versions of the packages that matter here."""
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": len(os.sched_getaffinity(0)),
        "kernel": platform.release(),
        "python": platform.python_version(),
        **{name: metadata.version(name) for name in distributions},
    }


def report(
    benchmark: str,
    figures: Sequence[Figure],
    options: Options,
    *,
    where: Mapping[str, str | int],
    details: Mapping[str, object] | None = None,
) -> None:
    """Write the JSON, if asked for, and print the table.

    `where` is the environment; `details` are further JSON values, kept beside the figures.
    """
    if options.json_path is not None:
        document = {
            "benchmark": benchmark,
            "environment": dict(where),
            "rounds": options.rounds,
            "quick": options.quick,
            "figures": [asdict(figure) for figure in figures],
            **(details or {}),
        }
        options.json_path.write_text(json.dumps(document, indent=1) + "\n")
    table = Table(
        title=f"{benchmark}: median of {options.rounds} rounds", title_justify="left", box=None
    )
    table.add_column("figure", no_wrap=True)
    for column in ("value", "smallest", "largest", "bound", ""):
        table.add_column(column, justify="right")
    for figure in figures:
        comparison, bound = BOUNDS.get(figure.name, ("", None))
        table.add_row(
            figure.name,
            _text(figure.value, figure.unit),
            *(_text(value, figure.unit) for value in figure.spread),
            "" if bound is None else f"{comparison} {_text(bound, figure.unit)}",
            {True: "reached", False: "[bold red]short[/]", None: ""}[figure.reached],
        )
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(", ".join(f"{name} {value}" for name, value in where.items()))
    console.print(table)


def _text(value: float, unit: str) -> str:
    """Render a number with three or four significant digits and a handy multiple of its unit."""
    if unit == "s":
        scale, name = next(
            ((s, n) for s, n in ((1.0, "s"), (1e-3, "ms")) if abs(value) >= s), (1e-6, "us")
        )
    elif unit in ("B", "B/s"):
        scale, name = next(
            (
                (s, prefix + unit)
                for s, prefix in ((1e9, "G"), (1e6, "M"), (1e3, "k"))
                if abs(value) >= s
            ),
            (1.0, unit),
        )
    else:
        return f"{value:.3f}{unit}"
    return f"{value / scale:.3g} {name}"
