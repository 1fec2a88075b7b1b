"""The node plan's file, read again whenever it changes.

A downward-API volume swaps a symbolic link and the local runner renames a file over it, so
the file is looked at by its identity, not watched by its name.
"""

import logging
from pathlib import Path

import pydantic

from harmony_api.node_plan import NodePlan

log = logging.getLogger(__name__)


class PlanFile:
    """Reads one file; what cannot be read leaves the plan before in force."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def changed(self) -> NodePlan | None:
        """Return the plan if there is one that was not returned before."""
        try:
            status = self._path.stat()
            identity = (status.st_ino, status.st_mtime_ns, status.st_size)
            if identity == self._seen:
                return None
            self._seen = identity
            text = self._path.read_bytes()
            # A pod's annotation that is not there yet shows as an empty file.
            return NodePlan.model_validate_json(text) if text else None
        except FileNotFoundError:
            return None
        except (OSError, pydantic.ValidationError) as error:
            log.warning("the node plan %s cannot be read, the old one stays: %s", self._path, error)
            return None
