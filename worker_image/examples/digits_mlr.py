"""Multinomial logistic regression on the handwritten digits that scikit-learn ships."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import harmony_worker as harmony


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="default: 20 epochs")
    parser.add_argument("--batch-size", type=int, default=64)
    arguments = parser.parse_args()

    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)

    with harmony.connect(seed=arguments.seed) as job:
        model, optimizer = job.parameter_server(torch.nn.Linear(64, 10), torch.optim.SGD, lr=0.5)
        for image, label in job.blocks(
            images,
            labels,
            batch_size=arguments.batch_size,
            iterations=arguments.iterations,
            epochs=20,
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
