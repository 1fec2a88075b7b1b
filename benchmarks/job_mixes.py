"""The mixes of jobs that are trained together, as manifests of the benchmarks' training job.

A kind of job is what one iteration costs; a mix is some jobs of some kinds. Costs are nominal:
what a run measures is what counts, they only have to come near, so that a mix is what its name
says.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harmony_api.profile import JobProfile

LINK_MEGABITS: Final = 800
MILLISECONDS_PER_MEGABYTE: Final = 2 * 8e3 / LINK_MEGABITS + 0.4
"""PULL and PUSH of a megabyte over the link, its headers and the servers' update."""
PROGRAM: Final = Path(__file__).with_name("training_job.py")


@dataclass(frozen=True)
class Kind:
    """A kind of job: nominal milliseconds of COMP and of NET per iteration."""

    compute_milliseconds: int
    network_milliseconds: int
    iterations: int
    rounds: int = 1
    """Iterations for each one of the mix's longest job."""

    @property
    def costs(self) -> tuple[int, int]:
        """Nominal milliseconds of COMP and NET."""
        return self.compute_milliseconds, self.network_milliseconds

    @property
    def megabytes(self) -> float:
        """Parameters, in 1e6 bytes."""
        return self.network_milliseconds / MILLISECONDS_PER_MEGABYTE


@dataclass(frozen=True)
class Mix:
    """Jobs that train together, by name."""

    name: str
    jobs: Mapping[str, Kind]

    @classmethod
    def of(cls, name: str, *kinds: tuple[int, Kind]) -> "Mix":
        """Make so many jobs of each kind."""
        listed = [kind for count, kind in kinds for _ in range(count)]
        return cls(name, {f"job-{index}": kind for index, kind in enumerate(listed)})

    def one_of_each_kind(self) -> dict[str, Kind]:
        """The first job of every kind."""
        first: dict[Kind, str] = {}
        for name, kind in self.jobs.items():
            first.setdefault(kind, name)
        return {name: kind for kind, name in first.items()}


def counted_mixes(iterations: int) -> list[Mix]:
    """The eight mixes that the figures rest on.

    The longest jobs of a pair have so many iterations, those of a four half as many.
    """
    half = iterations // 2
    return [
        Mix.of("balanced_pair", (2, Kind(100, 95, iterations))),
        Mix.of("compute_heavy_pair", (2, Kind(120, 60, iterations))),
        Mix.of("network_heavy_pair", (2, Kind(60, 120, iterations))),
        # While the long job computes the short one transfers, and while the long one transfers
        # the short one computes twice. Its transfers in between delay those of the long one: so
        # the network is what limits this mix.
        Mix.of(
            "unequal_pair",
            (1, Kind(60, 100, iterations)),
            (1, Kind(40, 50, 2 * iterations, rounds=2)),
        ),
        Mix.of("balanced_four", (4, Kind(60, 57, half))),
        Mix.of("compute_heavy_four", (4, Kind(80, 40, half))),
        Mix.of("network_heavy_four", (4, Kind(40, 80, half))),
        Mix.of("unequal_four", (2, Kind(60, 60, half)), (2, Kind(20, 25, 2 * half, rounds=2))),
    ]


def blocked_pair(iterations: int) -> Mix:
    """A mix that cannot come near its bound, reported beside the others.

    COMP is not preempted: while the long job computes (120 ms), the short one waits for its
    next COMP, so its three rounds fall one after the other into the rest of the cycle.
    """
    return Mix.of(
        "blocked_pair",
        (1, Kind(120, 40, iterations)),
        (1, Kind(20, 30, 3 * iterations, rounds=3)),
    )


def build_manifest(
    name: str, kind: Kind, profile: JobProfile | None, arguments: Sequence[str]
) -> dict[str, object]:
    """The HarmonyJob of one job, with its profile as the hint where there is one."""
    command = [sys.executable, str(PROGRAM), f"--megabytes={kind.megabytes}", *arguments]
    spec: dict[str, object] = {
        "iterations": kind.iterations,
        "sharing": {"maxSlowdownPercent": 1000},
        "failurePolicy": {"backoffLimit": 0},
        "workers": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "worker", "command": command}]}},
        },
        "parameterServers": {"replicas": 1},
    }
    if profile is not None:
        spec["profile"] = {
            "computeMilliseconds": round(profile.compute_microseconds / 1e3),
            "pullMilliseconds": round(profile.pull_microseconds / 1e3),
            "pushMilliseconds": round(profile.push_microseconds / 1e3),
            "updateMilliseconds": round(profile.update_microseconds / 1e3),
        }
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": name},
        "spec": spec,
    }
