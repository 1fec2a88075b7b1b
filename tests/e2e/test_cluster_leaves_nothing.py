"""A cluster leaves nothing on the machine, also when its owner is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.waiting import until

TESTS = Path(__file__).parents[1]
OWNER = """
from cluster.native import native_cluster
with native_cluster() as cluster:
    print(cluster.kubeconfig.parent, flush=True)
    input()
"""


@pytest.fixture
def owner(pytestconfig: pytest.Config) -> subprocess.Popen[str]:
    """A process with a cluster of its own, whose folder it prints."""
    if pytestconfig.option.cluster != "native":
        pytest.skip("only the native cluster lies on this machine")
    return subprocess.Popen(
        [sys.executable, "-c", OWNER],
        env={**os.environ, "PYTHONPATH": str(TESTS)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def traces(folder: Path) -> list[str]:
    """Processes, mounts, control groups and files in which the cluster's name occurs."""
    return [
        *(f"process {pid}" for pid in processes(folder.name)),
        *(
            line
            for line in Path("/proc/self/mounts").read_text().splitlines()
            if folder.name in line
        ),
        *(str(group) for group in Path("/sys/fs/cgroup").glob(f"**/*{folder.name}*")),
        *([str(folder)] if folder.exists() else []),
    ]


def processes(text: str) -> list[str]:
    """The ids of the processes in whose command line `text` occurs."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if text.encode() in path.read_bytes():
                found.append(path.parent.name)
        except OSError:
            continue  # it has just ended
    return found


def links() -> set[str]:
    """The network links of this machine."""
    return {path.name for path in Path("/sys/class/net").iterdir()}


def test_a_killed_owner_leaves_nothing(owner: subprocess.Popen[str]) -> None:
    before = links()
    folder = Path(owner.stdout.readline().strip())
    assert any("process" in trace for trace in traces(folder))
    assert any("cgroup" in trace for trace in traces(folder))
    assert links() == before
    owner.kill()
    owner.communicate()
    until(
        lambda: not traces(folder),
        seconds=60,
        what="nothing is left",
        details=lambda: "\n".join(traces(folder)),
    )


def test_a_stopped_cluster_leaves_nothing(owner: subprocess.Popen[str]) -> None:
    folder = Path(owner.stdout.readline().strip())
    owner.communicate("stop\n")
    assert owner.returncode == 0
    assert traces(folder) == []
