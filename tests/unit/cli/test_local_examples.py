"""Every example trains to the same losses alone, unplanned, and shared while it is hit.

The proof behind the first promise of the README, for each program in worker_image/examples.
"""

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from local_run_harness import EXAMPLES, LocalRun, harmony_run, manifest

pytestmark = [pytest.mark.training, pytest.mark.kills]

ITERATIONS = 58  # two epochs of attach_digits, which counts by itself
SMALL = {
    "attach_digits": ("--epochs", "2"),
    "char_transformer": ("--width", "64", "--layers", "2", "--context", "32"),
    "cooccurrence_factorisation": ("--vocabulary", "500", "--batch-size", "256"),
    "digits_cnn": ("--channels", "8"),
    "digits_mlp": ("--width", "256"),
    "digits_mlr": (),
}
PAIRS = [
    ("attach_digits", "char_transformer"),
    ("cooccurrence_factorisation", "digits_mlr"),
    ("digits_cnn", "digits_mlp"),
]


def job(example: str) -> dict[str, Any]:
    return manifest(
        example.replace("_", "-"),
        program=f"{example}.py",
        arguments=SMALL[example],
        iterations=ITERATIONS,
        servers=2,
    )


def test_every_example_is_here() -> None:
    assert sorted(SMALL) == sorted(path.stem for path in EXAMPLES.glob("*.py"))
    assert sorted(sum(PAIRS, ())) == sorted(SMALL)


@pytest.mark.timeout(600)
@pytest.mark.parametrize("pair", PAIRS, ids=" and ".join)
def test_an_example_trains_to_the_same_losses_however_it_runs(
    pair: tuple[str, str], tmp_path: Path
) -> None:
    jobs = [job(example) for example in pair]
    names = [each["metadata"]["name"] for each in jobs]

    def losses(mode: str, *, hit: bool = False) -> dict[str, dict[int, str]]:
        folder = tmp_path / f"{mode}-{hit}"
        folder.mkdir()
        with harmony_run(folder, *jobs, options=("--mode", mode)) as run:
            if hit:
                hit_everything(run, names)
            assert run.finish() == 0, run.output()
            turns = [turn for name in names for turn in run.turns(name)]
            assert overlapping_compute_turns(turns) == []
            assert excessive_network_turns(turns) == []
            return {name: run.losses(name) for name in names}

    alone = losses("dedicated")
    assert all(len(of_job) == ITERATIONS for of_job in alone.values())
    assert losses("naive") == alone
    assert losses("shared") == alone
    assert losses("shared", hit=True) == alone


def hit_everything(run: LocalRun, names: list[str]) -> None:
    """Kill a worker of one job, a server of the other, and a sidecar."""
    first, second = names
    run.until_iteration(first, 10)
    os.kill(run.pid(first, "worker"), signal.SIGKILL)
    run.until_iteration(second, 15)
    os.kill(run.pid(second, "server"), signal.SIGKILL)
    os.kill(run.pid(first, "sidecar"), signal.SIGKILL)
