"""A small convolutional network with batch normalisation on scikit-learn's handwritten digits."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy

import harmony_worker as harmony


def convolution(inputs: int, outputs: int) -> nn.Sequential:
    """Return one 3x3 layer; its running statistics are state that the workers carry."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False),
        nn.BatchNorm2d(outputs),
        nn.ReLU(),
    )


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="default: 10 epochs")
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--channels", type=int, default=32)
    arguments = parser.parse_args()

    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)

    with harmony.connect(seed=arguments.seed) as job:
        network = nn.Sequential(
            convolution(1, arguments.channels),
            nn.MaxPool2d(2),
            convolution(arguments.channels, 2 * arguments.channels),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.25),
            nn.Linear(2 * arguments.channels * 2 * 2, 10),
        )
        model, optimizer = job.parameter_server(network, torch.optim.Adam, lr=3e-3)
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
