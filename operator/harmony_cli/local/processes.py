"""Child processes of a local run: placed on their cores, logged, and never left behind.

Three things end a child: its handle, the host's `stop_all`, and the runner's own end, however
it comes: the kernel kills the direct children (PR_SET_PDEATHSIG), the guardian their
descendants.
"""

import ctypes
import errno
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from harmony_cli.local import guardian

_LIBC = ctypes.CDLL(None, use_errno=True)  # loaded here: a forked child must not load it
_PR_SET_PDEATHSIG = 1
_CLONE_NEWNET = 0x40000000
_EPHEMERAL_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST_PORT: Final = 10_000
_KERNELS_CHOICE: Final = 0


class CommandNotFound(Exception):  # noqa: N818 (the name of what happened)
    """A command cannot be executed, or its working directory cannot be entered."""

    def __init__(self, command: str, reason: str) -> None:
        super().__init__(f"{command}: {reason}")
        self.command = command
        self.reason = reason


class Process:
    """A running or ended child."""

    def __init__(self, name: str, popen: subprocess.Popen[bytes], log_path: Path) -> None:
        self.name = name
        self.log_path = log_path
        self._popen = popen

    @property
    def pid(self) -> int:
        """Process id; also the id of the child's session and process group."""
        return self._popen.pid

    def poll(self) -> int | None:
        """The exit code, minus the number of the signal that killed it, or None: it runs."""
        return self._popen.poll()

    def wait(self, timeout_seconds: float | None = None) -> int:
        """Wait for the end and return the exit code; raises subprocess.TimeoutExpired."""
        return self._popen.wait(timeout_seconds)

    def send(self, number: signal.Signals) -> None:
        """Send a signal to the child alone; nothing happens when it has ended."""
        self._popen.send_signal(number)

    def terminate(self, grace_seconds: float = 5.0) -> int:
        """SIGTERM, then after the grace SIGKILL to its process group; return the exit code."""
        self._popen.terminate()
        try:
            return self._popen.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.pid, signal.SIGKILL)  # not reaped yet, so the id is still ours
            return self._popen.wait()

    def describe_exit(self) -> str:
        """How it ended, in words: `exit code 3`, `killed by SIGKILL`, `still running`."""
        code = self.poll()
        if code is None:
            return "still running"
        if code >= 0:
            return f"exit code {code}"
        return f"killed by {signal.Signals(-code).name}"


class ProcessHost:
    """Starts the processes of one run and answers for their end. A context manager.

    Used from the main thread only: the kernel's death signal follows the thread that forked.
    """

    def __init__(self) -> None:
        self.run = uuid.uuid4().hex
        """Id of the run: the marker's value, and part of its namespaces' names."""
        self.temporary_folder = Path(tempfile.mkdtemp(prefix="harmony-"))
        """For short paths such as those of sockets; the guardian removes it after the run."""
        read_end, self._alive = os.pipe()
        self._guardian = subprocess.Popen(
            [
                *(sys.executable, "-I", "-S", guardian.__file__),
                *(str(read_end), self.run, str(self.temporary_folder)),
            ],
            pass_fds=[read_end],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,
        )
        os.close(read_end)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop_all()
        os.close(self._alive)
        self._guardian.wait()

    def spawn(
        self,
        name: str,
        argv: Sequence[str],
        environment: Mapping[str, str],
        log_path: Path,
        *,
        cpus: Collection[int] | None = None,
        namespace: str | None = None,
        working_directory: Path | None = None,
    ) -> Process:
        """Start a child in a session of its own, its output appended to `log_path`.

        `environment` is all it gets, apart from the run's marker. `cpus` are the cores it is
        pinned to, `namespace` the network namespace (as `ip netns` names it) it lives in.
        Raises CommandNotFound when the command or its working directory is not there.
        """
        if threading.current_thread() is not threading.main_thread():
            raise RuntimeError("processes are started from the main thread only")
        log_path.parent.mkdir(parents=True, exist_ok=True)
        network = None
        if namespace is not None:
            network = os.open(Path("/run/netns", namespace), os.O_RDONLY)
        runner = os.getpid()

        def prepare() -> None:
            _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != runner:
                os._exit(1)
            if network is not None and _LIBC.setns(network, _CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "cannot enter the network namespace")
            if cpus is not None:
                os.sched_setaffinity(0, cpus)

        try:
            with log_path.open("ab") as log:
                popen = subprocess.Popen(
                    list(argv),
                    env={**environment, guardian.RUN_MARKER: self.run},
                    cwd=working_directory,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    preexec_fn=prepare,  # noqa: PLW1509 (plain system calls only)
                )
        except OSError as error:
            missing = error.filename if error.filename is not None else argv[0]
            raise CommandNotFound(os.fsdecode(missing), error.strerror or str(error)) from error
        finally:
            if network is not None:
                os.close(network)
        return Process(name, popen, log_path)

    def stop_all(self, grace_seconds: float = 5.0) -> None:
        """End every process of the run, descendants included, and wait until none is left."""
        guardian.stop_marked(self.run, grace_seconds)


def find_free_ports(count: int) -> list[int]:
    """TCP ports that nobody listens on, outside the range of outgoing connections.

    So no connection made in between can take one; another server still could. Where that
    range leaves too few, the kernel chooses within it. Raises OSError when ports run out.
    """
    first, last = map(int, _EPHEMERAL_PORTS.read_text().split())
    below, above = range(_LOWEST_PORT, first), range(last + 1, 65_536)
    candidates = [
        *random.sample(below, len(below)),
        *random.sample(above, len(above)),
        *[_KERNELS_CHOICE] * count,
    ]
    free: list[int] = []
    with ExitStack() as held:  # until the end, so that the kernel chooses none twice
        for port in candidates:
            if len(free) == count:
                break
            probe = held.enter_context(socket.socket())
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                probe.close()
                continue
            free.append(probe.getsockname()[1])
    if len(free) < count:
        raise OSError(errno.EADDRINUSE, f"{count} free ports wanted, {len(free)} found")
    return free
