"""What is wrong with a job's pod templates, found before anything is created."""

from harmony_operator.observed import ObservedJob


def template_errors(job: ObservedJob) -> tuple[str, ...]:
    """Return every fault in the raw pod templates, each with its field path; empty: none."""
    raise NotImplementedError
