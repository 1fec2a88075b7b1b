"""A wide perceptron on scikit-learn's handwritten digits: many parameters for little compute."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import harmony_worker as harmony


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="default: 10 epochs")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=2048)
    arguments = parser.parse_args()

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)

    with harmony.connect(seed=arguments.seed) as job:
        network = nn.Sequential(
            nn.Linear(64, arguments.width),
            nn.ReLU(),
            nn.Linear(arguments.width, arguments.width),
            nn.ReLU(),
            nn.Linear(arguments.width, 10),
        )
        model, optimizer = job.parameter_server(network, torch.optim.Adam, lr=2e-4)
        for image, label in job.blocks(
            images,
            labels,
            batch_size=arguments.batch_size,
            iterations=arguments.iterations,
            epochs=10,
        ):
            with job.pull():
                optimizer.pull()
            with job.compute():
                loss = cross_entropy(model(image), label)
                loss.backward()
            job.report(loss)
            with job.push():
                optimizer.push()


if __name__ == "__main__":
    main()
