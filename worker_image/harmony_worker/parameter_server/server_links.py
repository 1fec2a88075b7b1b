"""All servers of a job, asked at once.

Transfers run on one thread per server, pinned to the transfer cores, so that the compute cores
stay with the model. The first server that cannot go on ends the requests to the others, so that
nobody waits on a server for peers that wait for this worker.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TypeVar

from harmony_worker.parameter_server.link import Link

Answer = TypeVar("Answer")


class ServerLinks:
    """One worker's links, by the servers' index."""

    def __init__(self, links: Sequence[Link], transfer_cpus: frozenset[int]) -> None:
        self.links = tuple(links)
        self._threads = ThreadPoolExecutor(
            len(links), "transfer", initializer=_pin, initargs=(transfer_cpus,)
        )

    def ask_all(
        self, action: Callable[[int, Link], Answer], *, in_threads: bool = False
    ) -> list[Answer]:
        """Run the action on every link; the first error ends the others and is raised.

        A single server is asked in the caller's own thread, unless `in_threads`.
        """
        if len(self.links) == 1 and not in_threads:
            return [action(0, self.links[0])]
        futures = [
            self._threads.submit(action, server, link) for server, link in enumerate(self.links)
        ]
        try:
            done, pending = wait(futures, return_when=FIRST_EXCEPTION)
            if pending:
                self._abort()
                wait(pending)
        except BaseException:  # the user's Ctrl-C: leave no thread behind that waits
            self._abort()
            raise
        for future in sorted(done, key=futures.index):
            future.result()
        return [future.result() for future in futures]

    def close(self) -> None:
        """End what is under way, and every connection."""
        self._abort()
        self._threads.shutdown()
        for link in self.links:
            link.close()

    def _abort(self) -> None:
        for link in self.links:
            link.abort()


def _pin(cpus: frozenset[int]) -> None:
    if cpus:
        os.sched_setaffinity(0, cpus)
