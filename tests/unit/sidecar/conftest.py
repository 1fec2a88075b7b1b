"""Nodes of real sidecars, and workers, that end with their test."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from sidecar_processes import Node, SidecarProcess, WorkerProcess, plan_of


def _nodes_in(folder: Path) -> Iterator[Callable[..., Node]]:
    nodes: list[Node] = []

    def make(*members: str, compute_seconds: float = 0.01, **fields: object) -> Node:
        below = folder / f"node-{len(nodes)}"
        below.mkdir()
        plan = plan_of(*members, compute_seconds=compute_seconds, **fields)
        node = Node(below, plan)
        node.write_plan()
        nodes.append(node)
        return node

    yield make
    for node in nodes:
        node.stop()


@pytest.fixture
def make_node(tmp_path: Path) -> Iterator[Callable[..., Node]]:
    """Make a node with a plan; its processes end with the test."""
    yield from _nodes_in(tmp_path)


@pytest.fixture(scope="module")
def make_node_for_module(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[..., Node]]:
    """Make a node that serves several tests."""
    yield from _nodes_in(tmp_path_factory.mktemp("nodes"))


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
