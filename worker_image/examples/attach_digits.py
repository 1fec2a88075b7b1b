"""A loop that knew nothing of Harmony, and the one line that made it a job."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import harmony_worker as harmony


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--width", type=int, default=512)
    arguments = parser.parse_args()

    torch.manual_seed(arguments.seed)
    digits = load_digits()
    images = torch.tensor(digits.data, dtype=torch.float32) / 16
    labels = torch.tensor(digits.target)
    loader = DataLoader(TensorDataset(images, labels), arguments.batch_size, shuffle=True)
    model = nn.Sequential(
        nn.Linear(64, arguments.width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(arguments.width, 10),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    job = harmony.attach(model, optimizer)

    for epoch in range(arguments.epochs):
        for image, label in loader:
            optimizer.zero_grad()
            loss = cross_entropy(model(image), label)
            loss.backward()
            job.report(loss)  # optional: progress, and the exact loss in the records of a run
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
