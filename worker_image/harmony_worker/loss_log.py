"""The exact loss of every iteration, one JSON line each.

Equal results are claimed to the last bit, so a line carries the loss in hexadecimal beside the
readable number. Lines are appended: after a restart an iteration may occur twice, and the last
occurrence counts. A full disk costs lines, never the training. `/dev/stdout` puts the lines among
the program's own.
"""

import json
import logging
import os
from pathlib import Path
from typing import Final

STANDARD_OUTPUT: Final = Path("/dev/stdout")

log = logging.getLogger(__name__)


class LossLog:
    """Appends to one file, unbuffered."""

    def __init__(self, path: Path) -> None:
        self._damaged = False
        try:
            self._descriptor = _open(path)
        except OSError as error:
            self._warn(error)
            self._descriptor = os.open(os.devnull, os.O_WRONLY)

    def write(self, iteration: int, loss: float) -> None:
        """Note the loss of one iteration; where that fails, warn and go on."""
        line = {"iteration": iteration, "loss": loss, "hex": loss.hex()}
        text = json.dumps(line) + "\n"
        data = ("\n" + text if self._damaged else text).encode()
        try:
            self._damaged = os.write(self._descriptor, data) < len(data)
        except OSError as error:
            if not self._damaged:
                self._warn(error)
            self._damaged = True

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)

    def _warn(self, error: OSError) -> None:
        log.warning("losses are not recorded: %s", error)


def _open(path: Path) -> int:
    if path == STANDARD_OUTPUT:
        # To open it by its name is refused where another user made the pipe.
        return os.dup(1)
    path.parent.mkdir(parents=True, exist_ok=True)
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
