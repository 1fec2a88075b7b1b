"""The shaped link carries its bandwidth, and goes when its run goes."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harmony_cli.local.link import Link, LinkError, shaped_link
from harmony_cli.local.processes import Process, ProcessHost

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="network namespaces need root")

MEGABITS = 400
COPY_BYTES = 4_000_000
SERVER = f"""
import socket, sys
listener = socket.create_server((sys.argv[1], 5000))
print("up", flush=True)
peer, _ = listener.accept()
if sys.argv[2] == "send":
    peer.sendall(bytes({COPY_BYTES}))
received = 0
while data := peer.recv(1 << 20):
    received += len(data)
if sys.argv[2] == "receive":
    peer.sendall(b"done")
print(received, flush=True)
"""
CLIENT = f"""
import socket, sys, time
peer = socket.create_connection((sys.argv[1], 5000))
started = time.monotonic()
if sys.argv[2] == "receive":
    peer.sendall(bytes({COPY_BYTES}))
    peer.shutdown(socket.SHUT_WR)
    assert peer.recv(4) == b"done"
else:
    left = {COPY_BYTES}
    while left:
        left -= len(peer.recv(1 << 20))
print(time.monotonic() - started, flush=True)
"""


@pytest.fixture
def host() -> Iterator[ProcessHost]:
    with ProcessHost() as started:
        yield started


def wait_for_line(log: Path) -> str:
    deadline = time.monotonic() + 30
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < deadline, f"nothing in {log}"
        time.sleep(0.01)
    return log.read_text().splitlines()[0]


def python(
    host: ProcessHost, tmp_path: Path, name: str, program: str, *arguments: str, namespace: str
) -> Process:
    argv = [sys.executable, "-S", "-c", program, *arguments]
    return host.spawn(name, argv, {}, tmp_path / f"{name}.log", namespace=namespace)


def copy_seconds(host: ProcessHost, tmp_path: Path, link: Link, server_does: str) -> float:
    server, client = f"server-{server_does}", f"client-{server_does}"
    arguments = (link.server_address, server_does)
    python(host, tmp_path, server, SERVER, *arguments, namespace=link.server_namespace)
    wait_for_line(tmp_path / f"{server}.log")
    worker = python(host, tmp_path, client, CLIENT, *arguments, namespace=link.worker_namespace)
    assert worker.wait(60) == 0
    return float(wait_for_line(tmp_path / f"{client}.log"))


def namespaces_of(run: str) -> list[str]:
    return [path.name for path in Path("/run/netns").glob("*") if run[:12] in path.name]


@needs_root
@pytest.mark.root
@pytest.mark.parametrize("server_does", ["receive", "send"])
def test_no_direction_of_the_link_is_faster_than_its_bandwidth(
    host: ProcessHost, tmp_path: Path, server_does: str
) -> None:
    with shaped_link(MEGABITS, host.run) as link:
        seconds = copy_seconds(host, tmp_path, link, server_does)
    assert seconds > 0.95 * COPY_BYTES * 8 / (MEGABITS * 1e6)


@needs_root
@pytest.mark.root
def test_the_link_leads_nowhere_but_to_its_other_end(host: ProcessHost, tmp_path: Path) -> None:
    show = "from pathlib import Path; print(len(Path('/proc/net/route').read_text().splitlines()))"
    with shaped_link(MEGABITS, host.run) as link:
        shown = python(host, tmp_path, "show", show, namespace=link.worker_namespace)
        assert shown.wait(30) == 0
    assert wait_for_line(tmp_path / "show.log") == "2"  # the heading and one route


@needs_root
@pytest.mark.root
def test_nothing_is_left_of_a_link_that_was_used(host: ProcessHost) -> None:
    with shaped_link(MEGABITS, host.run):
        assert len(namespaces_of(host.run)) == 2
    assert namespaces_of(host.run) == []


@needs_root
@pytest.mark.root
def test_nothing_is_left_of_a_link_that_could_not_be_made(
    host: ProcessHost, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for tool in ("ip", "sh"):
        found = shutil.which(tool)
        assert found is not None
        (tmp_path / tool).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(LinkError, match="needs `tc`"), shaped_link(MEGABITS, host.run):
        pass
    assert namespaces_of(host.run) == []


RUNNER = f"""
import time
from harmony_cli.local.link import shaped_link
from harmony_cli.local.processes import ProcessHost
with ProcessHost() as host, shaped_link({MEGABITS}, host.run):
    print(host.run, flush=True)
    time.sleep(600)
"""


@needs_root
@pytest.mark.root
@pytest.mark.kills
def test_nothing_is_left_of_a_link_whose_runner_is_killed() -> None:
    runner = subprocess.Popen([sys.executable, "-c", RUNNER], stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    run = runner.stdout.readline().strip()
    assert len(namespaces_of(run)) == 2
    runner.send_signal(signal.SIGKILL)
    runner.wait(30)
    deadline = time.monotonic() + 30
    while namespaces_of(run):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_link_without_root_is_refused_in_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(LinkError, match="needs root"), shaped_link(MEGABITS, "anything"):
        pass
