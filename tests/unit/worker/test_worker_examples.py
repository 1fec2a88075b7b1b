"""Every example learns, and its losses are the same alone and over any number of servers."""

import pytest
from worker_processes import MakeJob

EXAMPLES = {
    "digits_mlr.py": ["--iterations", "40"],
    "digits_cnn.py": ["--iterations", "25", "--channels", "8"],
    "digits_mlp.py": ["--iterations", "40", "--width", "512"],
    "char_transformer.py": ["--iterations", "40", "--width", "64", "--layers", "2"],
    "cooccurrence_factorisation.py": ["--iterations", "40", "--vocabulary", "500", "--width", "8"],
    "attach_digits.py": ["--epochs", "2", "--width", "64"],
}


def mean(losses: list[str]) -> float:
    return sum(float.fromhex(loss) for loss in losses) / len(losses)


@pytest.mark.training
@pytest.mark.parametrize("program", EXAMPLES)
def test_an_example_learns_the_same_alone_and_over_two_servers_under_permits(
    program: str, make_job: MakeJob
) -> None:
    alone, served = jobs = [
        make_job(name, program, *EXAMPLES[program]) for name in ("alone", "served")
    ]
    served.start_servers(2)
    served.start_sidecars()
    for job in jobs:
        job.start_worker()
    for job in jobs:
        job.finish()
    losses = list(alone.losses().values())
    assert mean(losses[-5:]) < 0.9 * mean(losses[:5])
    assert served.losses() == alone.losses()
