"""What lives on an event loop in a thread of its own, and is used from a test as if it did not."""

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, Self, TypeVar

Answer = TypeVar("Answer")
PATIENCE_SECONDS = 60


class LoopThread(ABC):
    """Opened and closed on its loop by `with`; `_do` runs a coroutine there and waits for it."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @abstractmethod
    async def _open(self) -> None:
        """Begin."""

    @abstractmethod
    async def _close(self) -> None:
        """End everything that runs on the loop."""

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._open())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _do(self, coroutine: Coroutine[Any, Any, Answer]) -> Answer:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(PATIENCE_SECONDS)
