"""The exact loss of every iteration, one JSON line each.

Equal results are claimed to the last bit, so a line carries the loss in hexadecimal beside the
readable number. Lines are appended: after a restart an iteration may occur twice, and the last
occurrence counts.
"""

import json
from pathlib import Path


class LossLog:
    """Appends to one file; every line is on its way to the disk when `write` returns."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def write(self, iteration: int, loss: float) -> None:
        """Note the loss of one iteration."""
        line = {"iteration": iteration, "loss": loss, "hex": loss.hex()}
        self._file.write(json.dumps(line) + "\n")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_losses(path: Path) -> dict[int, str]:
    """Return the loss of each iteration in hexadecimal; a torn last line is left out."""
    losses: dict[int, str] = {}
    for text in path.read_text(encoding="utf-8").splitlines():
        try:
            line = json.loads(text)
        except json.JSONDecodeError:
            continue
        losses[line["iteration"]] = line["hex"]
    return losses
