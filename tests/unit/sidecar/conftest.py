"""Nodes of real sidecars, and workers, that end with their test."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sidecar_processes import Node, SidecarProcess, WorkerProcess, plan_of


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Make a node with a plan; its processes end with the test."""
    nodes: list[Node] = []

    def make(*members: str, **fields: object) -> Node:
        folder = tmp_path / f"node-{len(nodes)}"
        folder.mkdir()
        node = Node(folder, plan_of(*members, **fields))
        node.write_plan()
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.stop()


@pytest.fixture
def start_worker() -> Iterator[Callable[..., WorkerProcess]]:
    """Run `code` with `client` connected to a sidecar; what is left over is killed."""
    started: list[subprocess.Popen[str]] = []

    def start(sidecar: SidecarProcess, code: str) -> WorkerProcess:
        program = (
            "import random, sys, time\n"
            "from harmony_api.worker_protocol import Phase\n"
            "from harmony_worker.permits import PermitClient\n"
            "client = PermitClient.connect(sys.argv[1])\n"
            "def say(*words): print(*words, flush=True)\n" + code
        )
        process = subprocess.Popen(
            [sys.executable, "-c", program, str(sidecar.socket_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return WorkerProcess(process)

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()
