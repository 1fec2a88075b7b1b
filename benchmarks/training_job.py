"""The training program that benchmarks start: real training, of any chosen cost.

A perceptron learns to label random points. `--megabytes` of parameters decide what a PULL and
a PUSH carry, `--batch-size` how long COMP takes; nothing else costs much,
so an iteration is those three phases. All jobs of a measurement start together: each says that
it is ready, and begins when as many as `--jobs` have said so.
"""

import argparse
import math
import os
import time
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import harmony_worker as harmony

FEATURES = 64
CLASSES = 10
SAMPLES = 16384


def build_model(megabytes: float) -> nn.Module:
    """Return a perceptron with two hidden layers and that many parameter bytes (1e6)."""
    # width^2 + (FEATURES + CLASSES + 2) x width + CLASSES parameters
    linear = FEATURES + CLASSES + 2
    width = round((math.sqrt(linear**2 + 4 * (megabytes * 1e6 / 4 - CLASSES)) - linear) / 2)
    return nn.Sequential(
        nn.Linear(FEATURES, width),
        nn.ReLU(),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Linear(width, CLASSES),
    )


def build_data(samples: int) -> tuple[Tensor, Tensor]:
    """Return random points, labelled by a random linear rule."""
    generator = torch.Generator().manual_seed(1)
    points = torch.randn(samples, FEATURES, generator=generator)
    rule = torch.randn(FEATURES, CLASSES, generator=generator)
    return points, (points @ rule).argmax(dim=1)


def wait_for_all(gate: Path, job: str, jobs: int) -> None:
    """Say that this job is ready, and wait until that many are."""
    gate.mkdir(parents=True, exist_ok=True)
    (gate / job).touch()
    while len(list(gate.iterdir())) < jobs:
        time.sleep(0.002)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=10.0)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--iterations", type=int, help="default: what the manifest says")
    parser.add_argument("--gate", type=Path, help="folder in which the jobs meet before they start")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--delay", type=float, default=0.0, metavar="SECONDS")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    points, labels = build_data(SAMPLES)
    size = arguments.batch_size
    with harmony.connect() as job:
        model = build_model(arguments.megabytes)
        for _ in range(3):  # the first passes are slower; they change nothing
            cross_entropy(model(points[:size]), labels[:size]).backward()
        model, optimizer = job.parameter_server(model, torch.optim.SGD, lr=0.05)
        if arguments.gate is not None:
            wait_for_all(arguments.gate, os.environ["HARMONY_JOB"], arguments.jobs)
            time.sleep(arguments.delay)
        for batch, targets in job.blocks(
            points, labels, batch_size=size, iterations=arguments.iterations
        ):
            with job.pull():
                optimizer.pull()
            with job.compute():
                loss = cross_entropy(model(batch), targets)
                loss.backward()
            with job.push():
                optimizer.push()
            job.report(loss.detach())


if __name__ == "__main__":
    main()
