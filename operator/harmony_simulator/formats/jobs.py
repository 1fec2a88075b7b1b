"""What all trace formats have in common: unique ids, submission order, all problems at once."""

from collections.abc import Callable, Sequence
from pathlib import Path

from harmony_simulator.formats.table import Row, read_rows
from harmony_simulator.trace import LONGEST_SECONDS, Problem, Trace, TraceError, TraceJob


def read_jobs(file: Path, columns: Sequence[str], job_of: Callable[[Row], TraceJob]) -> Trace:
    """Return the trace of a CSV file, a job a line; raises TraceError with every problem."""
    problems: list[Problem] = []
    jobs: list[TraceJob] = []
    lines: dict[str, int] = {}
    for row in read_rows(file, columns, problems):
        job = job_of(row)
        if job.id and job.id in lines:
            row.complain(f"job {job.id} is already on line {lines[job.id]}")
        lines.setdefault(job.id, row.line)
        if row.is_good and job.work_seconds > LONGEST_SECONDS:
            row.complain(f"job {job.id} would run for {job.work_seconds:g} s: check its units")
        if row.is_good:
            jobs.append(job)
    if not jobs and not problems:
        problems.append(Problem(str(file), None, "holds no job"))
    if problems:
        raise TraceError(problems)
    return Trace.of(jobs)
