"""Waiting for a condition with a deadline, the one way in which anything here waits."""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def until(
    condition: Callable[[], Answer],
    *,
    seconds: float,
    what: str,
    every_seconds: float = 0.05,
    details: Callable[[], str] = str,
) -> Answer:
    """Return the first true answer of `condition`, asked again and again.

    Raises `TimeoutError` naming `what`, with what `details` gives then, after `seconds`.
    """
    deadline = time.monotonic() + seconds
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise TimeoutError(f"not within {seconds:g} s: {what}\n{details()}".rstrip())
        time.sleep(every_seconds)
    return answer
