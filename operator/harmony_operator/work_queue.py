"""A queue of keys: many reasons to look at a thing, one look at a time.

News go before what is merely due: under a load of news the latter has one look at a time, else
a few, so that it is late but never stands still.

A key that is added while it waits is there once; added while it is being worked on, it is
worked on again afterwards; so no news is lost and nothing is done twice at once. A failure
puts the key back after a pause that doubles, from `FIRST_BACKOFF_SECONDS` up to
`LONGEST_BACKOFF_SECONDS`; the first success forgets it.
"""

import asyncio
import heapq
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)

FIRST_BACKOFF_SECONDS: Final = 0.2
LONGEST_BACKOFF_SECONDS: Final = 60.0
AFTER_WORK_SECONDS: Final = 0.5
"""A key that becomes due while it is worked on is looked at again so long after that."""

_logger = logging.getLogger(__name__)


class Retry(Exception):  # noqa: N818 - an outcome, not an error of the work's code
    """The work could not be done now; its text says why."""


class WorkQueue(Generic[Key]):
    """Keys to work on; used by one event loop."""

    def __init__(self) -> None:
        self._news: deque[Key] = deque()
        self._in_news: set[Key] = set()
        self._slack: deque[Key] = deque()
        self._in_slack: set[Key] = set()
        self._slack_busy = 0
        self._busy: set[Key] = set()
        self._again: set[Key] = set()
        self._again_later: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._later: list[tuple[float, int, Key]] = []
        self._due: dict[Key, float] = {}
        self._numbers = itertools.count()
        self._wake = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._in_news) + len(self._in_slack)

    def add(self, key: Key) -> None:
        """Have the key worked on, soon."""
        if key in self._busy:
            self._again.add(key)
        elif key not in self._in_news:
            self._in_slack.discard(key)
            self._in_news.add(key)
            self._news.append(key)
            self._wake.set()

    def _add_slack(self, key: Key) -> None:
        if key in self._busy:
            self._again_later.add(key)
        elif key not in self._in_news and key not in self._in_slack:
            self._in_slack.add(key)
            self._slack.append(key)
            self._wake.set()

    def add_after(self, key: Key, seconds: float) -> None:
        """Have the key worked on after that time; of several times the earliest counts."""
        due = asyncio.get_running_loop().time() + seconds
        if due < self._due.get(key, float("inf")):
            self._due[key] = due
            heapq.heappush(self._later, (due, next(self._numbers), key))
            self._set_timer()

    async def work(self, worker: Callable[[Key], Awaitable[float | None]], at_once: int) -> None:
        """Call `worker` for each key, up to `at_once` of them side by side; never returns.

        It may return the seconds after which to look again. Whatever it raises is logged and
        the key is tried again. No more than an eighth of the keys at once are merely due.
        """
        async with asyncio.TaskGroup() as group:
            for _ in range(at_once):
                group.create_task(self._work(worker, max(1, at_once // 8)))

    async def _work(
        self, worker: Callable[[Key], Awaitable[float | None]], slack_at_once: int
    ) -> None:
        while True:
            while (found := self._next(slack_at_once)) is None:
                self._wake.clear()
                await self._wake.wait()
            key, slack = found
            self._slack_busy += slack
            self._busy.add(key)
            try:
                again_after_seconds = await worker(key)
            except Exception as error:
                failures = self._failures[key] = self._failures.get(key, 0) + 1
                pause = min(FIRST_BACKOFF_SECONDS * 2 ** (failures - 1), LONGEST_BACKOFF_SECONDS)
                if isinstance(error, Retry):
                    _logger.warning("%s: %s; again in %.1f s", key, error, pause)
                else:
                    _logger.exception("%s: failed; again in %.1f s", key, pause)
                self.add_after(key, pause)
            else:
                self._failures.pop(key, None)
                if again_after_seconds is not None:
                    self.add_after(key, again_after_seconds)
            finally:
                self._slack_busy -= slack
                self._busy.discard(key)
                if key not in self._failures:
                    if key in self._again:
                        self.add(key)
                    elif key in self._again_later:
                        self.add_after(key, AFTER_WORK_SECONDS)
                self._again.discard(key)
                self._again_later.discard(key)

    def _next(self, slack_at_once: int) -> tuple[Key, bool] | None:
        """Take the next key, and whether it is merely due; None: there is none to be taken now."""
        while self._slack and self._slack[0] not in self._in_slack:
            self._slack.popleft()  # it became news
        if self._slack and self._slack_busy < (1 if self._news else slack_at_once):
            key = self._slack.popleft()
            self._in_slack.discard(key)
            return key, True
        if self._news:
            key = self._news.popleft()
            self._in_news.discard(key)
            return key, False
        return None

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._later:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_at(self._later[0][0], self._add_due)

    def _add_due(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._later and self._later[0][0] <= now:
            due, _, key = heapq.heappop(self._later)
            if self._due.get(key) == due:
                del self._due[key]
                self._add_slack(key)
        self._set_timer()
