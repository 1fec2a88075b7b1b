"""Reads a sidecar over HTTP, in short blocking calls that a hung sidecar cannot stretch.

The runner is single-threaded, so one silent sidecar must not stop it: after a failure the
sidecar is left alone for a while, and the last state stays.
"""

import http.client
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pydantic

from harmony_api.sidecar_state import SidecarState, TurnPage, TurnRecord

Model = TypeVar("Model", bound=pydantic.BaseModel)

TIMEOUT_SECONDS = 0.3
PAUSE_AFTER_FAILURE_SECONDS = 1.0


@dataclass
class SidecarReader:
    """One sidecar, found by the port file that it writes beside its socket."""

    port_file: Path
    lost: int = 0
    """Turns that the sidecar had to overwrite before they were asked for."""
    _next_sequence: int = 0
    _failed_at: float = field(default=float("-inf"))

    def state(self) -> SidecarState | None:
        """Return the sidecar's state, or None when it does not answer now."""
        body = self._get("/state")
        return None if body is None else _parse(SidecarState, body)

    def new_turns(self) -> list[TurnRecord]:
        """Return the turns recorded since the last call, however many pages they fill."""
        turns: list[TurnRecord] = []
        while (body := self._get(f"/events?after={self._next_sequence}")) is not None:
            page = _parse(TurnPage, body)
            if page is None or not page.turns:
                break
            self._next_sequence = page.next_sequence
            self.lost += page.lost
            turns += page.turns
        return turns

    def try_again(self) -> None:
        """Ask also a sidecar that has just failed to answer."""
        self._failed_at = float("-inf")

    def restart(self) -> None:
        """A new sidecar process is about to start: its records begin anew."""
        self.port_file.unlink(missing_ok=True)
        self._next_sequence = 0
        self._failed_at = float("-inf")

    def _get(self, path: str) -> bytes | None:
        if time.monotonic() - self._failed_at < PAUSE_AFTER_FAILURE_SECONDS:
            return None
        try:
            port = int(self.port_file.read_text())
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
            try:
                connection.request("GET", path)
                response = connection.getresponse()
                return response.read() if response.status == http.client.OK else None
            finally:
                connection.close()
        except (OSError, ValueError, http.client.HTTPException):
            if self.port_file.exists():
                self._failed_at = time.monotonic()
            return None


def _parse(model: type[Model], body: bytes) -> Model | None:
    try:
        return model.model_validate_json(body)
    except pydantic.ValidationError:
        return None
