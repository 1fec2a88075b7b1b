"""What a simulation found: when each job ran, and how busy the cluster was meanwhile.

Figures follow the definitions of the published simulators, so that they can be compared: the
makespan counts from the trace's time 0, and a percentile is an element, not an interpolation.
Jobs that never finished are in no mean; `unfinished` tells of them.
"""

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import Field, asdict, dataclass, fields
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class JobOutcome:
    """What became of a job."""

    id: str
    gpus: int
    submit_seconds: float
    first_start_seconds: float | None
    """None where it never ran."""
    finish_seconds: float | None
    """None where it never finished."""
    reason: str | None
    """Why it never finished; None where it did."""

    @property
    def completion_seconds(self) -> float | None:
        """From submission to finish."""
        return None if self.finish_seconds is None else self.finish_seconds - self.submit_seconds


@dataclass(frozen=True)
class Sample:
    """The cluster from one event to the next."""

    at_seconds: float
    running_gpus: int
    compute_utilisation: float
    """Part of the GPUs' time that the running jobs compute, if nothing else delays them."""
    network_utilisation: float
    """Likewise for the network stage."""
    waiting_jobs: int


@dataclass(frozen=True)
class Result:
    """One run of one policy on one trace."""

    policy: str
    outcomes: tuple[JobOutcome, ...]
    """In the order of the trace."""
    samples: tuple[Sample, ...]
    """In the order of time, one for each event."""

    @property
    def unfinished(self) -> tuple[JobOutcome, ...]:
        """Return the jobs that never finished, each with its reason."""
        return tuple(outcome for outcome in self.outcomes if outcome.finish_seconds is None)

    @property
    def completions_seconds(self) -> list[float]:
        """Return the completion times of the finished jobs, ascending."""
        times = (outcome.completion_seconds for outcome in self.outcomes)
        return sorted(time for time in times if time is not None)

    @property
    def mean_completion_seconds(self) -> float:
        """Over the finished jobs, summed in order of their finish; 0 where there is none."""
        finished = [o for o in self.outcomes if o.finish_seconds is not None]
        finished.sort(key=lambda outcome: outcome.finish_seconds or 0.0)
        total = sum(outcome.completion_seconds or 0.0 for outcome in finished)
        return total / len(finished) if finished else 0.0

    @property
    def p99_completion_seconds(self) -> float:
        """Element `int(0.99 n)` of the ascending completion times; 0 where there is none."""
        times = self.completions_seconds
        return times[int(0.99 * len(times))] if times else 0.0

    @property
    def makespan_seconds(self) -> float:
        """Return the latest finish, from the trace's time 0; 0 where no job finished."""
        return max((outcome.finish_seconds or 0.0 for outcome in self.outcomes), default=0.0)

    def mean_utilisation(self) -> tuple[float, float]:
        """Return compute and network utilisation over time, up to the last sample."""
        pairs = list(zip(self.samples, self.samples[1:], strict=False))
        seconds = sum(later.at_seconds - sample.at_seconds for sample, later in pairs)
        if not seconds:
            return 0.0, 0.0
        widths = [(s, later.at_seconds - s.at_seconds) for s, later in pairs]
        return (
            sum(sample.compute_utilisation * width for sample, width in widths) / seconds,
            sum(sample.network_utilisation * width for sample, width in widths) / seconds,
        )

    def write(self, outcomes: Path, samples: Path | None = None) -> None:
        """Write the tables, as Parquet where a file is named so, else as CSV."""
        _write_table(outcomes, fields(JobOutcome), map(asdict, self.outcomes))
        if samples is not None:
            _write_table(samples, fields(Sample), map(asdict, self.samples))


def _write_table(
    file: Path, columns: Sequence[Field[Any]], rows: Iterable[Mapping[str, object]]
) -> None:
    names = [column.name for column in columns]
    if file.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        listed = list(rows)
        pq.write_table(pa.table({name: [row[name] for row in listed] for name in names}), file)
        return
    with file.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, names)
        writer.writeheader()
        writer.writerows(rows)
