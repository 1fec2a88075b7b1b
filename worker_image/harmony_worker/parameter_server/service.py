"""What a server answers: the messages of one job's workers, applied to its shard.

One lock guards the rounds and every change of the shard; bytes move without it. A pull needs
none, since no update runs between the answer to a worker's SYNC and its commit (with bounded
staleness it may see a neighbour's update half done, which that contract allows).
"""

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator

import torch

from harmony_worker.parameter_server import wire
from harmony_worker.parameter_server.push_message import PushForm, PushMessage, Settings
from harmony_worker.parameter_server.rounds import Rounds, RoundsError, Update
from harmony_worker.parameter_server.sessions import (
    Hello,
    RefusedError,
    Session,
    StaleGenerationError,
    SupersededError,
)
from harmony_worker.parameter_server.shard import Shard, ShardPlan
from harmony_worker.parameter_server.snapshot_schedule import SnapshotSchedule
from harmony_worker.parameter_server.snapshots import SnapshotError
from harmony_worker.parameter_server.wire import NONE, Header, Kind, WireError

log = logging.getLogger(__name__)


class Service:
    """One server of one job. Every public method may be called from any thread."""

    def __init__(
        self,
        job: str,
        server: int,
        workers: int,
        snapshots: SnapshotSchedule,
        on_all_finished: Callable[[], object],
        on_failure: Callable[[], object],
    ) -> None:
        self._job = job
        self._server = server
        self._workers = workers
        self._snapshots = snapshots
        self._on_all_finished = on_all_finished
        self._on_failure = on_failure
        self._changed = threading.Condition()
        self._plan: ShardPlan | None = None
        self._staleness = 0
        self._shard: Shard | None = None
        self._rounds = Rounds(workers)
        self._generation = 0
        """0: the parameters have no values yet."""
        self._update_ns = 0
        self._worker_states: list[dict[int, bytes]] = [{} for _ in range(workers)]
        self._pending_settings: Settings | None = None
        self._sessions: dict[int, Session] = {}
        self._answers: dict[int, Callable[[Session, Header], None]] = {
            Kind.STATUS: self._status,
            Kind.INITIAL: self._initial,
            Kind.RESTORE: self._restore,
            Kind.RESUME: self._resume,
            Kind.SYNC: self._sync,
            Kind.PULL: self._pull,
            Kind.ROWS: self._rows,
            Kind.PUSH: self._push,
            Kind.FINISHED: self._finished,
        }

    # Joining

    def admit(self, connection: socket.socket, hello: Hello) -> Session:
        """Make the session of a worker that said hello; it replaces that worker's older one.

        Raises RefusedError, or SupersededError for a process that was itself replaced.
        """
        worker = hello.worker
        if hello.job != self._job:
            raise RefusedError(f"this is a server of job {self._job!r}, not {hello.job!r}")
        if hello.workers != self._workers or not 0 <= worker < hello.workers:
            raise RefusedError(f"worker {worker} of {hello.workers}: the job has {self._workers}")
        session = Session(connection, worker, hello.process)
        with self._changed:
            old = self._sessions.get(worker)
            if old is not None and not hello.fresh and old.process != hello.process:
                raise SupersededError
            self._hold(hello.plan, hello.staleness)
            self._sessions[worker] = session
            if old is not None:
                old.supersede()
            self._changed.notify_all()
        if old is not None:
            old.left.wait()
        return session

    def _hold(self, plan: ShardPlan, staleness: int) -> None:
        if plan.server != self._server:
            raise RefusedError(f"this is server {self._server}, not {plan.server}")
        if self._plan is not None:
            if plan.identity != self._plan.identity or staleness != self._staleness:
                raise RefusedError("this worker's model differs from that of the other workers")
            return
        try:
            self._snapshots.check_identity(plan.identity)
            self._shard = Shard(plan, self._workers)
        except SnapshotError as error:
            raise RefusedError(str(error)) from None
        except (ValueError, TypeError, RuntimeError, AttributeError) as error:
            raise RefusedError(f"torch.optim.{plan.optimizer} cannot be used: {error}") from error
        self._plan, self._staleness = plan, staleness
        self._rounds = Rounds(self._workers, staleness)
        size = plan.part.bytes / 1e6
        log.info("holds %.1f MB of %s for torch.optim.%s", size, self._job, plan.optimizer)

    # Answering

    def handle(self, session: Session, request: Header) -> None:
        """Read the rest of one request and answer it.

        Raises WireError when the stream can no longer be trusted, ConnectionError when it ended.
        """
        answer = self._answers.get(request.kind)
        if answer is None:
            raise WireError(f"a request of kind {request.kind}")
        try:
            answer(session, request)
        except StaleGenerationError:
            wire.send_message(session.connection, Header(Kind.ROLLED_BACK))
        except (RefusedError, RoundsError, IndexError) as error:
            refuse(session.connection, str(error))
        except SupersededError:
            raise ConnectionResetError("replaced by a newer connection") from None

    def greet(self, session: Session) -> None:
        """Answer a HELLO."""
        self._status(session, Header(Kind.STATUS))

    def _status(self, session: Session, request: Header) -> None:
        _expect(request, meta=0, payload=0)
        with self._changed:
            status = {
                "generation": self._generation,
                "pushed": self._rounds.pushed[session.worker],
                "snapshots": self._snapshots.iterations,
            }
        wire.send_json(session.connection, Header(Kind.OK), status)

    def _initial(self, session: Session, request: Header) -> None:
        shard = self._held()
        _expect(request, meta=0, payload=shard.plan.part.bytes)
        try:
            self._begin_rollback(session, request)
        except (StaleGenerationError, RefusedError):
            wire.discard(session.connection, request.payload_bytes)
            raise
        wire.receive_into(session.connection, shard.parameter_bytes)
        with self._changed:
            shard.reset()
            self._end_rollback(session, request, [])
        log.info("starts at iteration 0 with the parameters of worker %d", session.worker)
        wire.send_message(session.connection, Header(Kind.OK))

    def _restore(self, session: Session, request: Header) -> None:
        _expect(request, meta=0, payload=0)
        shard = self._held()
        if request.iteration not in self._snapshots.iterations:
            raise StaleGenerationError
        self._begin_rollback(session, request)
        with self._changed:
            try:
                states = self._snapshots.restore(request.iteration, shard)
            except SnapshotError as error:
                log.warning("%s", error)
                raise StaleGenerationError from None
            self._end_rollback(session, request, states)
        log.info("rolled back to iteration %d", request.iteration)
        wire.send_message(session.connection, Header(Kind.OK))

    def _begin_rollback(self, session: Session, request: Header) -> None:
        """From here to the end of the rollback there is no generation, so nobody else acts."""
        if session.worker != 0:
            raise RefusedError("only worker 0 decides where the job starts")
        with self._changed:
            if request.generation <= self._generation:
                raise StaleGenerationError
            self._generation = 0
            self._changed.notify_all()

    def _end_rollback(self, session: Session, request: Header, states: list[bytes]) -> None:
        if session.superseded:
            raise SupersededError
        iteration = request.iteration
        self._snapshots.discard_after(iteration)
        self._worker_states = [{} for _ in range(self._workers)]
        for kept, state in zip(self._worker_states, states, strict=False):
            kept[iteration - 1] = state
        self._pending_settings = None
        self._rounds.restart_at(iteration)
        self._generation = request.generation
        self._changed.notify_all()

    def _resume(self, session: Session, request: Header) -> None:
        _expect(request, meta=0, payload=0)
        with self._current(session, request):
            state = self._worker_states[session.worker].get(request.iteration - 1, b"")
        wire.send_message(session.connection, Header(Kind.OK), payload=[memoryview(state)])

    def _sync(self, session: Session, request: Header) -> None:
        _expect(request, meta=0, payload=0)
        iteration = request.iteration
        with self._current(session, request):
            self._commit(session, request)
            if self._server == 0 and self._snapshots.is_time:
                self._rounds.request_snapshot()
            self._wait(session, request, lambda: self._rounds.is_ready(iteration))
            reply = Header(
                Kind.OK,
                snapshot_at=_word(self._rounds.snapshot_at),
                stop_at=_word(self._rounds.told(session.worker, iteration)),
                saved_at=_word(self._snapshots.newest),
            )
            update_ns = self._update_ns
        wire.send_message(session.connection, reply, wire.UPDATE_NS.pack(update_ns))

    def _finished(self, session: Session, request: Header) -> None:
        _expect(request, meta=0, payload=0)
        with self._current(session, request):
            self._commit(session, request)
            self._apply(self._rounds.finish(session.worker))
            self._wait(session, request, lambda: self._rounds.all_finished)
        wire.send_message(session.connection, Header(Kind.OK))
        self._on_all_finished()

    def _pull(self, session: Session, request: Header) -> None:
        _expect(request, meta=wire.RANGE.size, payload=0)
        meta = wire.receive_bytes(session.connection, wire.RANGE.size)
        offset, length = wire.RANGE.unpack(meta)
        with self._current(session, request) as shard:
            parameters = shard.parameter_bytes
        if offset + length > parameters.nbytes:
            raise WireError(f"a pull of bytes {offset} to {offset + length}")
        part = parameters[offset : offset + length]
        wire.send_message(session.connection, Header(Kind.OK), payload=[part])

    def _rows(self, session: Session, request: Header) -> None:
        count = request.payload_bytes // 8
        _expect(request, meta=wire.TABLE.size, payload=8 * count)
        (index,) = wire.TABLE.unpack(wire.receive_bytes(session.connection, wire.TABLE.size))
        tables = self._held().tables
        if index >= len(tables) or count > len(tables[index].held):
            raise WireError(f"{count} row ids of table {index}")
        table = tables[index]
        rows = wire.receive_tensor(session.connection, (count,), torch.int64)
        with self._current(session, request):
            values = table.read(rows)
        wire.send_message(session.connection, Header(Kind.OK), payload=[wire.bytes_of(values)])

    def _push(self, session: Session, request: Header) -> None:
        shard = self._held()
        connection, worker, iteration = session.connection, session.worker, request.iteration
        form = PushForm.read(connection, request, shard)
        try:
            with self._current(session, request):
                wanted = self._rounds.is_new(worker, iteration)
        except (StaleGenerationError, RoundsError):
            wire.discard(connection, request.payload_bytes)
            raise
        if wanted:
            message = form.receive(connection, shard.gradient_bytes(worker), shard)
            with self._current(session, request):
                self._keep(session, iteration, message)
        else:
            wire.discard(connection, request.payload_bytes)
        if request.flags & wire.Flags.STOP:
            with self._changed:
                self._rounds.request_stop()
        wire.send_message(connection, Header(Kind.OK))

    def _keep(self, session: Session, iteration: int, message: PushMessage) -> None:
        worker = session.worker
        for table, (rows, gradients) in zip(self._held().tables, message.rows, strict=True):
            table.put(worker, rows, gradients)
        states = self._worker_states[worker]
        states[iteration] = message.worker_state
        states.pop(iteration - 2, None)
        if message.settings is not None:
            self._pending_settings = message.settings
        self._rounds.complete_push(worker, iteration)

    # Moving on; all of it with the lock held

    @contextlib.contextmanager
    def _current(self, session: Session, request: Header) -> Iterator[Shard]:
        """Hold the lock, provided that this session and its generation still count."""
        with self._changed:
            self._check(session, request)
            yield self._held()

    def _check(self, session: Session, request: Header) -> None:
        if session.superseded:
            raise SupersededError
        if request.generation != self._generation or self._generation == 0:
            raise StaleGenerationError

    def _wait(self, session: Session, request: Header, ready: Callable[[], bool]) -> None:
        while not ready():
            self._changed.wait()
            self._check(session, request)

    def _commit(self, session: Session, request: Header) -> None:
        if request.snapshot_at != NONE:
            self._rounds.hear_snapshot(request.snapshot_at)
            self._take_due_snapshot()
        if request.saved_at != NONE:
            self._snapshots.keep(request.saved_at)
        self._wait(session, request, lambda: self._rounds.may_commit(request.iteration))
        self._apply(self._rounds.commit(session.worker, request.iteration))

    def _apply(self, updates: list[Update]) -> None:
        shard = self._held()
        for update in updates:
            begin = time.monotonic_ns()
            try:
                if self._pending_settings is not None and 0 in update.workers:
                    shard.set_hyperparameters(*self._pending_settings)
                    self._pending_settings = None
                shard.update(update.workers, update.divisor)
            except Exception:
                self._on_failure()
                raise
            self._update_ns = time.monotonic_ns() - begin
        if updates:
            self._take_due_snapshot()
        self._changed.notify_all()

    def _take_due_snapshot(self) -> None:
        if self._rounds.snapshot_due and self._rounds.snapshot_at is not None:
            self._snapshots.take(self._rounds.snapshot_at, self._held(), self._states())
            self._rounds.snapshot_taken()
            self._changed.notify_all()

    def _states(self) -> list[bytes]:
        return [states.get(self._rounds.version - 1, b"") for states in self._worker_states]

    def _held(self) -> Shard:
        if self._shard is None:
            raise RefusedError("no worker has described its model yet")
        return self._shard

    def wait_for_goodbyes(self, seconds: float) -> None:
        """Return when every worker has closed its connection, or after so many seconds."""
        deadline = time.monotonic() + seconds
        for session in list(self._sessions.values()):
            session.left.wait(deadline - time.monotonic())

    def snapshot_at_the_end(self) -> None:
        """Save what is here, if the parameters are at one iteration; returns when it is safe."""
        with self._changed:
            if self._generation and self._shard is not None and self._rounds.aligned:
                self._snapshots.take(self._rounds.version, self._shard, self._states())
        self._snapshots.drain()


def refuse(connection: socket.socket, reason: str) -> None:
    """Tell a worker why its request was not granted."""
    log.warning("refused: %s", reason)
    wire.send_json(connection, Header(Kind.REFUSED), {"reason": reason})


def _expect(request: Header, *, meta: int, payload: int) -> None:
    if request.meta_bytes != meta or request.payload_bytes != payload:
        raise WireError(
            f"request {request.kind} with {request.meta_bytes} bytes of meta and "
            f"{request.payload_bytes} of payload, not {meta} and {payload}"
        )


def _word(iteration: int | None) -> int:
    return NONE if iteration is None else iteration
