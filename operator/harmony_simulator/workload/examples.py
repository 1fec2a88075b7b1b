"""What an iteration of the project's own examples costs, as it was measured.

`profiles.json` is written by `benchmarks/example_profiles.py`, which trains every setting alone
with `harmony run --mode dedicated`: seconds are medians over its iterations, waiting excluded.
"""

import json
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files


@dataclass(frozen=True)
class Setting:
    """One way to run one example, on one worker and one server."""

    application: str
    arguments: str
    compute_seconds: float
    network_seconds: float
    """PULL, PUSH and the servers' update."""

    @property
    def iteration_seconds(self) -> float:
        """One iteration alone."""
        return self.compute_seconds + self.network_seconds


@lru_cache(maxsize=1)
def measured_settings() -> tuple[Setting, ...]:
    """Return every measured setting, in the order of the file."""
    data = json.loads(files(__package__).joinpath("profiles.json").read_text("utf-8"))
    return tuple(
        Setting(
            application=one["application"],
            arguments=one["arguments"],
            compute_seconds=one["computeMicroseconds"] / 1e6,
            network_seconds=sum(one[f"{phase}Microseconds"] for phase in ("pull", "push", "update"))
            / 1e6,
        )
        for one in data["settings"]
    )
