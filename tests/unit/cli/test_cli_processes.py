"""Nothing that a run started survives it, whatever ends it."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harmony_cli.local import processes
from harmony_cli.local.processes import CommandNotFound, Process, ProcessHost, find_free_ports

SLEEP = "import time; time.sleep(600)"
STUBBORN = f"""
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
{SLEEP}
"""
FAMILY = f"""
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", {STUBBORN!r}], start_new_session=True)
print(child.pid, flush=True)
{SLEEP}
"""
"""A child whose own child ignores SIGTERM in another session."""


def eventually(condition: Callable[[], bool], what: str, seconds: float = 30.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"still waiting: {what}"
        time.sleep(0.01)


def lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1] if path.exists() else []


@pytest.fixture
def host() -> Iterator[ProcessHost]:
    with ProcessHost() as started:
        yield started


@pytest.fixture
def spawn(host: ProcessHost, tmp_path: Path) -> Callable[..., Process]:
    def start(program: str, name: str = "child", **options: object) -> Process:
        environment = {"PATH": os.environ["PATH"], "PYTHONUNBUFFERED": "1"}
        argv = [sys.executable, "-S", "-c", program]
        return host.spawn(name, argv, environment, tmp_path / f"{name}.log", **options)

    return start


def test_a_child_writes_its_output_to_its_log_after_what_is_there(
    spawn: Callable[..., Process], tmp_path: Path
) -> None:
    (tmp_path / "child.log").write_text("before\n")
    child = spawn("import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)")
    assert child.wait(30) == 3
    assert lines(tmp_path / "child.log") == ["before", "out", "err"]
    assert child.describe_exit() == "exit code 3"


def test_a_child_gets_only_the_environment_it_is_given_and_the_runs_marker(
    host: ProcessHost, spawn: Callable[..., Process], tmp_path: Path
) -> None:
    spawn("import json, os; print(json.dumps(dict(os.environ)))").wait(30)
    environment = json.loads(lines(tmp_path / "child.log")[0])
    environment.pop("LC_CTYPE", None)  # python's own
    assert environment == {
        "PATH": os.environ["PATH"],
        "PYTHONUNBUFFERED": "1",
        "HARMONY_RUN": host.run,
    }


def test_a_child_runs_on_its_cores_and_in_its_directory(
    spawn: Callable[..., Process], tmp_path: Path
) -> None:
    core = max(os.sched_getaffinity(0))
    program = "import os; print(os.sched_getaffinity(0), os.getcwd(), os.getsid(0) == os.getpid())"
    spawn(program, cpus=[core], working_directory=tmp_path).wait(30)
    assert lines(tmp_path / "child.log") == [f"{{{core}}} {tmp_path} True"]


@pytest.mark.parametrize("command", ["no-such-command", "./no-such-command", "/dev/null"])
def test_a_command_that_cannot_be_executed_is_named(
    host: ProcessHost, tmp_path: Path, command: str
) -> None:
    with pytest.raises(CommandNotFound) as error:
        host.spawn("job", [command], {"PATH": "/usr/bin"}, tmp_path / "log")
    assert error.value.command == command


def test_a_working_directory_that_is_missing_is_named(host: ProcessHost, tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    with pytest.raises(CommandNotFound, match=str(missing)):
        host.spawn("job", [sys.executable], {}, tmp_path / "log", working_directory=missing)


def test_a_thread_other_than_the_main_one_may_not_start_a_process(
    host: ProcessHost, tmp_path: Path
) -> None:
    refused: list[RuntimeError] = []

    def start() -> None:
        try:
            host.spawn("job", [sys.executable], {}, tmp_path / "log")
        except RuntimeError as error:
            refused.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    thread.join()
    assert len(refused) == 1


def test_terminate_kills_a_child_that_ignores_the_polite_request(
    spawn: Callable[..., Process], tmp_path: Path
) -> None:
    child = spawn(STUBBORN)
    eventually(lambda: lines(tmp_path / "child.log") == ["up"], "the child starts")
    assert child.poll() is None
    assert child.describe_exit() == "still running"
    assert child.terminate(grace_seconds=0.05) == -signal.SIGKILL
    assert child.describe_exit() == "killed by SIGKILL"


def test_stop_all_ends_children_and_grandchildren_in_other_sessions(
    host: ProcessHost, spawn: Callable[..., Process], tmp_path: Path
) -> None:
    families = [spawn(FAMILY, name=f"family-{i}") for i in range(3)]
    logs = [tmp_path / f"family-{i}.log" for i in range(3)]
    eventually(lambda: all(len(lines(log)) == 2 for log in logs), "the families are complete")
    grandchildren = [int(line) for log in logs for line in lines(log) if line != "up"]
    assert all(lives(pid) for pid in grandchildren)
    host.stop_all(grace_seconds=0.1)
    assert not any(lives(pid) for pid in grandchildren)
    assert [family.poll() for family in families] == [-signal.SIGTERM] * 3


def test_stop_all_lets_a_child_finish_within_its_grace(
    host: ProcessHost, spawn: Callable[..., Process], tmp_path: Path
) -> None:
    child = spawn(
        "import signal, sys, time\n"
        "def finish(*_):\n    print('saved')\n    sys.exit(0)\n"
        f"signal.signal(signal.SIGTERM, finish)\nprint('up')\n{SLEEP}"
    )
    eventually(lambda: lines(tmp_path / "child.log") == ["up"], "the child starts")
    host.stop_all(grace_seconds=30)
    assert child.poll() == 0
    assert lines(tmp_path / "child.log") == ["up", "saved"]


def test_stop_all_leaves_the_processes_of_another_run_alone(
    host: ProcessHost, tmp_path: Path
) -> None:
    with ProcessHost() as other:
        theirs = other.spawn("job", [sys.executable, "-c", SLEEP], {}, tmp_path / "log")
        host.stop_all()
        assert theirs.poll() is None
    assert theirs.poll() == -signal.SIGTERM


RUNNER = f"""
import sys, time
from pathlib import Path
from harmony_cli.local.processes import ProcessHost
with ProcessHost() as host:
    for i in range(2):
        host.spawn(f"family-{{i}}", [sys.executable, "-u", "-c", {FAMILY!r}], {{}},
                   Path(sys.argv[1], f"family-{{i}}.log"))
    Path(host.temporary_folder, "s0").touch()
    print(host.run, host.temporary_folder, flush=True)
    time.sleep(600)
"""


@pytest.mark.kills
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_a_runner_that_ends_in_any_way(
    tmp_path: Path, number: signal.Signals
) -> None:
    runner = subprocess.Popen(
        [sys.executable, "-c", RUNNER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert runner.stdout is not None
    run, temporary_folder = runner.stdout.readline().split()
    assert Path(temporary_folder).is_dir()
    logs = [tmp_path / f"family-{i}.log" for i in range(2)]
    eventually(lambda: all(len(lines(log)) == 2 for log in logs), "the families are complete")
    assert len(find_processes("cmdline", run)) == 1  # the guardian
    assert len(find_processes("environ", run)) == 4
    runner.send_signal(number)
    runner.wait(30)
    eventually(
        lambda: not find_processes("environ", run) and not find_processes("cmdline", run),
        "all have ended, the guardian too",
    )
    assert not Path(temporary_folder).exists()


def find_processes(file: str, run: str) -> list[int]:
    """Processes whose environment or command line names the run."""
    found = []
    for path in Path("/proc").glob(f"[0-9]*/{file}"):
        try:
            if run.encode() in path.read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def test_guardian_and_temporary_folder_end_with_the_host() -> None:
    with ProcessHost() as host:
        eventually(lambda: len(find_processes("cmdline", host.run)) == 1, "the guardian is up")
        (host.temporary_folder / "s0").touch()
    assert find_processes("cmdline", host.run) == []
    assert not host.temporary_folder.exists()


def test_the_guardian_is_not_ended_by_what_ends_a_terminals_processes() -> None:
    with ProcessHost() as host:
        eventually(lambda: len(find_processes("cmdline", host.run)) == 1, "the guardian is up")
        (ours,) = find_processes("cmdline", host.run)
        assert os.getsid(ours) == ours
        eventually(lambda: ignores(ours, signal.SIGTERM), "it waits for its runner")
        os.kill(ours, signal.SIGTERM)
        assert lives(ours)


def ignores(pid: int, number: signal.Signals) -> bool:
    status = Path(f"/proc/{pid}/status").read_text()
    ignored = next(line for line in status.splitlines() if line.startswith("SigIgn"))
    return bool(int(ignored.split()[1], 16) >> (number - 1) & 1)


def test_free_ports_are_distinct_and_can_be_bound() -> None:
    ports = find_free_ports(20)
    assert len(set(ports)) == 20
    for port in ports:
        with socket.socket() as server:
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind(("127.0.0.1", port))


@pytest.fixture
def set_ephemeral_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_range(first: int, last: int) -> None:
        file = tmp_path / "ip_local_port_range"
        file.write_text(f"{first}\t{last}\n")
        monkeypatch.setattr(processes, "_EPHEMERAL_PORTS", file)

    return set_range


@pytest.mark.parametrize(
    ("ephemeral", "allowed"),
    [
        ((32_768, 60_999), range(10_000, 32_768)),
        ((10_000, 59_999), range(60_000, 65_536)),
        ((1024, 49_999), range(50_000, 65_536)),
    ],
)
def test_free_ports_lie_outside_the_range_of_outgoing_connections(
    set_ephemeral_ports: Callable[..., None], ephemeral: tuple[int, int], allowed: range
) -> None:
    set_ephemeral_ports(*ephemeral)
    assert all(port in allowed for port in find_free_ports(20))


def test_the_kernel_chooses_ports_where_every_port_is_for_outgoing_connections(
    set_ephemeral_ports: Callable[..., None],
) -> None:
    set_ephemeral_ports(1024, 65_535)
    assert len(set(find_free_ports(20))) == 20


def test_too_few_free_ports_are_an_error(
    set_ephemeral_ports: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Taken(socket.socket):
        def bind(self, address: object) -> None:
            raise OSError("taken")

    set_ephemeral_ports(10_002, 65_535)
    monkeypatch.setattr(socket, "socket", Taken)
    with pytest.raises(OSError, match="3 free ports wanted, 0 found"):
        find_free_ports(3)
