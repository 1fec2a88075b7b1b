"""Word vectors from the co-occurrence of names in the source text of Python's standard library.

Each count of two names near each other is fitted by the product of two vectors, weighted as in
GloVe (Pennington et al., 2014). Only the rows of a batch travel to and from the servers.
"""

import argparse
import re
import sysconfig
from collections import Counter
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

import harmony_worker as harmony


def cooccurrences(vocabulary: int, window: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return first names, second names and counts of all pairs at most `window` names apart."""
    folder = Path(sysconfig.get_path("stdlib"))
    text = "\n".join(path.read_text("utf-8") for path in sorted(folder.glob("[a-d]*.py")))
    names = re.findall(r"[A-Za-z_]\w+", text)
    common = sorted(Counter(names).items(), key=lambda item: (-item[1], item[0]))[:vocabulary]
    index = {name: number for number, (name, _) in enumerate(common)}
    sequence = np.array([index.get(name, -1) for name in names])
    pairs = []
    for distance in range(1, window + 1):
        first, second = sequence[:-distance], sequence[distance:]
        known = (first >= 0) & (second >= 0)
        pairs += [first[known] * vocabulary + second[known]]
        pairs += [second[known] * vocabulary + first[known]]
    codes, counts = np.unique(np.concatenate(pairs), return_counts=True)
    firsts, seconds = np.divmod(codes, vocabulary)
    return torch.tensor(firsts), torch.tensor(seconds), torch.tensor(counts, dtype=torch.float32)


class Factorisation(nn.Module):
    """Predicts the logarithm of a count; the last column of a vector is its bias."""

    def __init__(self, vocabulary: int, width: int) -> None:
        super().__init__()
        self.first = harmony.SparseEmbedding(vocabulary, width + 1)
        self.second = harmony.SparseEmbedding(vocabulary, width + 1)

    def forward(self, firsts: Tensor, seconds: Tensor) -> Tensor:
        """Return predictions [batch] for two lists of names."""
        left: Tensor = self.first(firsts)
        right: Tensor = self.second(seconds)
        product = (left[:, :-1] * right[:, :-1]).sum(dim=1)
        return product + left[:, -1] + right[:, -1]


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="default: 2 epochs")
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--vocabulary", type=int, default=4000)
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()

    pairs = cooccurrences(arguments.vocabulary, window=4)

    with harmony.connect(seed=arguments.seed) as job:
        network = Factorisation(arguments.vocabulary, arguments.width)
        model, optimizer = job.parameter_server(network, torch.optim.Adagrad, lr=0.05)
        for firsts, seconds, counts in job.blocks(
            *pairs, batch_size=arguments.batch_size, iterations=arguments.iterations, epochs=2
        ):
            with job.pull():
                optimizer.pull({model.first: firsts, model.second: seconds})
            with job.compute():
                weights = (counts / 100).clamp(max=1) ** 0.75
                error = model(firsts, seconds) - counts.log()
                loss = (weights * error**2).sum() / weights.sum()
                loss.backward()
            job.report(loss)
            with job.push():
                optimizer.push()


if __name__ == "__main__":
    main()
