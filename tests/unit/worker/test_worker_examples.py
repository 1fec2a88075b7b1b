"""Every example learns, and its losses are the same alone and over any number of servers."""

import pytest
from worker_processes import MakeJob

EXAMPLES = {
    "digits_mlr.py": ["--iterations", "40"],
    "digits_cnn.py": ["--iterations", "25", "--channels", "8"],
    "digits_mlp.py": ["--iterations", "40", "--width", "512"],
    "char_transformer.py": ["--iterations", "40", "--width", "32", "--layers", "2"],
    "cooccurrence_factorisation.py": ["--iterations", "40", "--vocabulary", "500", "--width", "8"],
    "attach_digits.py": ["--epochs", "2", "--width", "64"],
}


def mean(losses: list[str]) -> float:
    return sum(float.fromhex(loss) for loss in losses) / len(losses)


@pytest.mark.training
@pytest.mark.parametrize("program", EXAMPLES)
def test_an_example_learns_the_same_alone_and_over_one_and_two_servers(
    program: str, make_job: MakeJob
) -> None:
    jobs = [make_job(f"servers-{count}", program, *EXAMPLES[program]) for count in range(3)]
    for count, job in enumerate(jobs):
        if count:
            job.start_servers(count)
        if count == 2:
            job.start_sidecars()
        job.start_worker()
    for job in jobs:
        job.finish()

    alone, *served = [job.losses() for job in jobs]
    losses = list(alone.values())
    assert mean(losses[-5:]) < 0.9 * mean(losses[:5])
    for losses_served in served:
        assert losses_served == alone
