"""A character transformer that learns program text: by default Python's standard library."""

import argparse
import sysconfig
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import harmony_worker as harmony

CHARACTERS = 128  # ASCII


def program_text(folder: Path) -> Tensor:
    """Return the text of the folder's modules as one sequence of ASCII codes."""
    text = b"".join(path.read_bytes() for path in sorted(folder.glob("*.py")))
    return torch.frombuffer(bytearray(text), dtype=torch.uint8).clamp(max=CHARACTERS - 1)


class Transformer(nn.Module):
    """Predicts every next character of a context."""

    def __init__(self, context: int, width: int, layers: int, heads: int) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, width)
        self.positions = nn.Parameter(0.02 * torch.randn(context, width))
        layer = nn.TransformerEncoderLayer(
            width,
            heads,
            dim_feedforward=4 * width,
            dropout=0.1,
            activation="gelu",
            batch_first=True,
            norm_first=True,
        )
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, CHARACTERS))
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(context))

    def forward(self, characters: Tensor) -> Tensor:
        """Return logits [batch, context, CHARACTERS] for codes [batch, context]."""
        hidden = self.characters(characters) + self.positions
        logits: Tensor = self.head(self.layers(hidden, mask=self.mask, is_causal=True))
        return logits


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--iterations", type=int, help="default: 300")
    parser.add_argument("--text", type=Path, default=Path(sysconfig.get_path("stdlib")))
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--context", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    arguments = parser.parse_args()

    text = program_text(arguments.text)
    window = torch.arange(arguments.context + 1)

    with harmony.connect(seed=arguments.seed) as job:
        network = Transformer(arguments.context, arguments.width, arguments.layers, arguments.heads)
        model, optimizer = job.parameter_server(network, torch.optim.AdamW, lr=5e-4)
        for _ in job.iterations(arguments.iterations, default=300):
            starts = torch.randint(len(text) - arguments.context, (arguments.batch_size, 1))
            block = text[starts + window].long()
            with job.pull():
                optimizer.pull()
            with job.compute():
                logits = model(block[:, :-1])
                loss = cross_entropy(logits.flatten(0, 1), block[:, 1:].flatten())
                loss.backward()
            job.report(loss)
            with job.push():
                optimizer.push()


if __name__ == "__main__":
    main()
