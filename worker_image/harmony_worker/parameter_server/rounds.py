"""When a server may apply, answer and snapshot: the state of one job's iterations, no I/O.

An iteration of a worker is first *pushed* (this server has all its bytes), then *committed*
(the worker said that every server has them). Only commits move time on, so every server
applies the same gradients, whichever worker or server is lost in between:

- staleness 0: update v happens when every worker has committed v;
- staleness s: a commit is applied at once, and a worker waits when it is more than s
  iterations ahead of the slowest.

A snapshot at iteration k holds exactly the iterations below k of every worker: server 0 names
a k that nobody has reached, and no iteration from k on is committed before it is taken. The
name reaches the other servers with the workers' commits: whoever commits k has been told.
"""

from dataclasses import dataclass


class RoundsError(ValueError):
    """A worker said something that no correct worker says in this state."""


@dataclass(frozen=True)
class Update:
    """Apply the gradients of these workers, summed in this order and divided by `divisor`."""

    workers: tuple[int, ...]
    divisor: int


class Rounds:
    """Counts of iterations per worker; version v means that iteration v can be computed."""

    def __init__(self, workers: int, staleness: int = 0) -> None:
        self.workers = workers
        self.staleness = staleness
        self.restart_at(0)

    def restart_at(self, iteration: int) -> None:
        """Everybody has committed everything below `iteration`, and nothing else."""
        self.version = iteration
        self.pushed = [iteration] * self.workers
        self.committed = [iteration] * self.workers
        self.finished = [False] * self.workers
        self.snapshot_at: int | None = None
        self.stop_at: int | None = None
        self._last_snapshot = iteration
        self._told_to_stop: set[int] = set()

    @property
    def all_finished(self) -> bool:
        """Whether every worker is done for good."""
        return all(self.finished)

    @property
    def aligned(self) -> bool:
        """Whether the parameters hold exactly the iterations below `version`."""
        return self.staleness == 0 or len(set(self.committed)) == 1

    def is_new(self, worker: int, iteration: int) -> bool:
        """Whether a push of this iteration is wanted; False: it is here already, drop it.

        Raises RoundsError for an iteration that this worker cannot be at.
        """
        reached = min(self.pushed[worker], self.committed[worker])
        if iteration > reached or not self.is_ready(iteration):
            raise RoundsError(
                f"worker {worker} pushes iteration {iteration}, but has completed "
                f"{self.pushed[worker]} and committed {self.committed[worker]}, and the "
                f"parameters are at {self.version}"
            )
        return iteration == self.pushed[worker]

    def complete_push(self, worker: int, iteration: int) -> None:
        """All bytes of this iteration are here."""
        if not self.is_new(worker, iteration):
            raise RoundsError(f"worker {worker} completes iteration {iteration} twice")
        self.pushed[worker] = iteration + 1

    def may_commit(self, iteration: int) -> bool:
        """Whether iterations below `iteration` can be committed now, or a snapshot is due first."""
        return self.snapshot_at is None or iteration <= self.snapshot_at

    def commit(self, worker: int, iteration: int) -> list[Update]:
        """`worker` has all its iterations below `iteration` on every server; idempotent.

        Returns the updates to apply now. Raises RoundsError when the push is not here.
        """
        if iteration > self.pushed[worker]:
            raise RoundsError(
                f"worker {worker} commits up to iteration {iteration}, "
                f"but has completed {self.pushed[worker]} pushes"
            )
        if iteration <= self.committed[worker]:
            return []
        if not self.may_commit(iteration):
            raise RoundsError(f"a snapshot at iteration {self.snapshot_at} comes first")
        self.committed[worker] = iteration
        if self.staleness > 0:
            self._advance()
            return [Update((worker,), self.workers)]
        return self._advance()

    def finish(self, worker: int) -> list[Update]:
        """`worker` is done for good: nobody waits for it any more."""
        self.finished[worker] = True
        return self._advance()

    def _advance(self) -> list[Update]:
        if self.staleness > 0:
            running = [self.committed[w] for w in range(self.workers) if not self.finished[w]]
            self.version = min(running, default=max(self.committed))
            return []
        contributors = tuple(w for w in range(self.workers) if self.committed[w] > self.version)
        waiting = any(
            not self.finished[w] and self.committed[w] == self.version for w in range(self.workers)
        )
        if waiting or not contributors:
            return []
        self.version += 1
        return [Update(contributors, len(contributors))]

    def is_ready(self, iteration: int) -> bool:
        """Whether a worker may compute this iteration on the present parameters."""
        return iteration - self.staleness <= self.version

    def request_snapshot(self) -> None:
        """Name the next iteration that nobody has reached.

        Server 0 only, and only before it answers a SYNC: that worker then knows the name long
        before it reaches the iteration, and nobody's snapshot is complete without its commit.
        """
        if self.snapshot_at is None:
            self.snapshot_at = max(self.committed) + 1

    def hear_snapshot(self, iteration: int) -> None:
        """A worker brings the iteration that server 0 named."""
        if self._last_snapshot < iteration and max(self.committed) <= iteration:
            self.snapshot_at = iteration

    @property
    def snapshot_due(self) -> bool:
        """Whether the parameters are now what the named snapshot shall hold."""
        return self.snapshot_at is not None and self.version >= self.snapshot_at

    def snapshot_taken(self) -> None:
        """The state was copied; commits go on."""
        if self.snapshot_at is not None:
            self._last_snapshot = self.snapshot_at
        self.snapshot_at = None

    def request_stop(self) -> None:
        """Server 0's counts only: name one iteration before which every worker stops."""
        if self.stop_at is None:
            self.stop_at = max(self.committed) + 1
            self._told_to_stop.clear()

    def told(self, worker: int, iteration: int) -> int | None:
        """Return the iteration to stop at, for the answer to this worker's SYNC.

        Once every worker was answered at that iteration the order is spent: a successor, whose
        first SYNC is at the same iteration, goes on.
        """
        stop_at = self.stop_at
        if stop_at is not None and iteration >= stop_at:
            self._told_to_stop.add(worker)
            if all(self.finished[w] or w in self._told_to_stop for w in range(self.workers)):
                self.stop_at = None
        return stop_at
