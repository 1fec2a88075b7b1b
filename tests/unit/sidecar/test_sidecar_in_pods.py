"""Sidecars as pods run them: users of their own, in namespaces of their own, one node store.

Each sidecar is the first process of its PID namespace, has a network of its own, a UID of its
job, and the group of the store. Its worker is a third user without that group.
"""

import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from sidecar_processes import Node, SidecarProcess, plan_of, wait_until

from harmony_api.pod_layout import ELECTION_FOLDER, HARMONY_GROUP, JOBS_FOLDER
from harmony_api.turn_checks import overlapping_compute_turns
from harmony_sidecar import node_store

pytestmark = [
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="users and namespaces need root"),
]

WORKER_USER = 10001
UNSHARE = ("unshare", "--net", "--pid", "--fork", "--mount-proc")


def as_user(user: int, groups: str) -> tuple[str, ...]:
    """Become a user who may read this interpreter wherever it is, and nothing else."""
    return (
        "setpriv",
        *("--reuid", str(user), "--regid", str(user), *groups.split()),
        *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
        "--bounding-set=-all,+dac_read_search",
    )


@dataclass
class PodSidecar(SidecarProcess):
    """A sidecar in its own network and PID namespaces, under its own UID."""

    user: int = 0

    @property
    def command(self) -> list[str]:
        become = as_user(self.user, f"--groups {HARMONY_GROUP}")
        with_loopback = ("sh", "-c", 'ip link set lo up && exec "$@"', "sh")
        return [*UNSHARE, *with_loopback, *become, *super().command]

    @property
    def inner(self) -> int:
        """PID of the sidecar itself, as this namespace numbers it."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        return int(children.read_text())

    def kill(self) -> None:
        assert self.process is not None
        os.kill(self.inner, signal.SIGKILL)
        self.process.wait()

    def in_network(self, *command: str) -> list[str]:
        return ["nsenter", "--target", str(self.inner), "--net", *command]

    def get(self, path: str) -> bytes:
        host = self.environment["HARMONY_HTTP_HOST"]
        url = f"http://{f'[{host}]' if ':' in host else host}:{self.port_path.read_text()}{path}"
        fetch = f"import urllib.request as u; print(u.urlopen('{url}', timeout=10).read().decode())"
        command = self.in_network(sys.executable, "-c", fetch)
        return subprocess.run(command, check=True, capture_output=True).stdout


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    """A node whose store is prepared as the DaemonSet does."""
    node = Node(tmp_path, plan_of("a/0", "b/0"))
    node.write_plan()
    node_store.prepare(node.store)
    yield node
    node.stop()


def add_pod(node: Node, job: str, *, host: str = "127.0.0.1") -> PodSidecar:
    """Start the sidecar of one more pod."""
    run_folder = node.folder / job
    run_folder.mkdir()
    run_folder.chmod(0o777)
    environment = os.environ | {
        "HARMONY_SOCKET": str(run_folder / "worker.sock"),
        "HARMONY_JOB": job,
        "HARMONY_NODE_STORE": str(node.store),
        "HARMONY_NODE_PLAN": str(node.plan_path),
        "HARMONY_HTTP_HOST": host,
        "HARMONY_HTTP_PORT": "0",
    }
    sidecar = PodSidecar(job, 0, node.folder, environment, user=200_001 + len(node.sidecars))
    node.sidecars[f"{job}/0"] = sidecar
    sidecar.start()
    return sidecar


@pytest.fixture
def start_worker() -> Iterator[Callable[[PodSidecar, str], subprocess.Popen[str]]]:
    """Run `code` as a pod's worker, with `client` connected to its sidecar."""
    started: list[subprocess.Popen[str]] = []

    def start(sidecar: PodSidecar, code: str) -> subprocess.Popen[str]:
        program = (
            "import sys, time\n"
            "from harmony_api.worker_protocol import Phase\n"
            "from harmony_worker.permits import PermitClient\n"
            "client = PermitClient.connect(sys.argv[1])\n" + code
        )
        become = as_user(WORKER_USER, "--clear-groups")
        python = (sys.executable, "-c", program, str(sidecar.socket_path))
        process = subprocess.Popen(
            sidecar.in_network(*become, *python),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


StartWorker = Callable[[PodSidecar, str], "subprocess.Popen[str]"]

TRAIN = """
for iteration in range(20):
    for phase in (Phase.PULL, Phase.COMP, Phase.PUSH):
        grant = client.acquire(phase, iteration)
        assert grant.coordinated
        time.sleep(0.002)
        client.release(grant)
client.end()
"""

COMPUTE_UNTIL_TOLD = """
grant = client.acquire(Phase.COMP, 0)
print("computes", grant.coordinated, flush=True)
sys.stdin.readline()
client.release(grant)
print("released", flush=True)
sys.stdin.readline()
"""


def line_of(worker: "subprocess.Popen[str]") -> str:
    assert worker.stdout is not None
    return worker.stdout.readline().strip()


def tell(worker: "subprocess.Popen[str]") -> None:
    assert worker.stdin is not None
    worker.stdin.write("\n")
    worker.stdin.flush()


def await_arbiter(sidecar: PodSidecar) -> None:
    wait_until(lambda: sidecar.state().arbiter, f"{sidecar.job} as the arbiter")


def test_pods_of_two_users_take_turns_on_their_node(node: Node, start_worker: StartWorker) -> None:
    first, second = add_pod(node, "a"), add_pod(node, "b")
    workers = [start_worker(sidecar, TRAIN) for sidecar in (first, second)]
    assert [worker.wait(60) for worker in workers] == [0, 0]
    turns = [turn for sidecar in (first, second) for turn in sidecar.turns()]
    assert len([turn for turn in turns if turn.phase == "COMP"]) == 40
    assert overlapping_compute_turns(turns) == []
    assert [sidecar.state().uncoordinated_turns for sidecar in (first, second)] == [0, 0]


def test_a_killed_arbiter_is_followed_by_another_user_who_keeps_its_worker_turn(
    node: Node, start_worker: StartWorker
) -> None:
    first = add_pod(node, "a")
    await_arbiter(first)
    second = add_pod(node, "b")
    holder = start_worker(first, COMPUTE_UNTIL_TOLD)
    assert line_of(holder) == "computes True"
    first.kill()
    await_arbiter(second)
    waiting = start_worker(second, COMPUTE_UNTIL_TOLD)
    wait_until(lambda: second.state().waiting_for == "COMP", "the request")
    holder.kill()
    assert line_of(waiting) == "computes True"


def test_a_worker_whose_sidecar_died_releases_its_permit_to_the_arbiter_of_another_pod(
    node: Node, start_worker: StartWorker
) -> None:
    arbiter = add_pod(node, "a")
    await_arbiter(arbiter)
    other = add_pod(node, "b")
    holder = start_worker(other, COMPUTE_UNTIL_TOLD)
    assert line_of(holder) == "computes True"
    other.kill()
    waiting = start_worker(arbiter, COMPUTE_UNTIL_TOLD)
    wait_until(lambda: arbiter.state().waiting_for == "COMP", "the request")
    tell(holder)
    assert line_of(holder) == "released"
    assert line_of(waiting) == "computes True"


def test_sigterm_ends_the_first_process_of_a_pod_and_hands_the_role_over(node: Node) -> None:
    first = add_pod(node, "a")
    await_arbiter(first)
    second = add_pod(node, "b")
    os.kill(first.inner, signal.SIGTERM)
    assert first.process is not None
    assert first.process.wait(20) == 0
    await_arbiter(second)


def test_a_sidecar_answers_on_the_address_of_its_pod_whichever_family_it_is(node: Node) -> None:
    assert add_pod(node, "a", host="::1").get("/healthz").strip() == b"ok"


def test_a_sidecar_outside_the_group_cannot_touch_the_election(node: Node) -> None:
    command = [
        *as_user(200_001, "--clear-groups"),
        "touch",
        str(node.store / ELECTION_FOLDER / "x"),
    ]
    assert subprocess.run(command, capture_output=True).returncode != 0


def test_the_node_store_is_prepared_whole_and_mended_without_losing_what_is_in_it(
    tmp_path: Path,
) -> None:
    store = tmp_path / "stores" / "node-1"
    assert node_store.main([str(store)]) == 0
    modes = {
        name: stat.S_IMODE((store / name).stat().st_mode)
        for name in ("", ELECTION_FOLDER, JOBS_FOLDER)
    }
    assert modes == {"": 0o755, ELECTION_FOLDER: 0o2770, JOBS_FOLDER: 0o1777}
    assert (store / ELECTION_FOLDER).stat().st_gid == HARMONY_GROUP
    assert list(store.parent.iterdir()) == [store]

    (store / ELECTION_FOLDER / "arbiter").write_text("kept")
    (store / ELECTION_FOLDER).chmod(0o700)
    (store / JOBS_FOLDER).rmdir()
    assert node_store.main([str(store)]) == 0
    assert (store / ELECTION_FOLDER / "arbiter").read_text() == "kept"
    assert stat.S_IMODE((store / ELECTION_FOLDER).stat().st_mode) == 0o2770
    assert (store / JOBS_FOLDER).is_dir()


def test_a_store_that_cannot_be_made_is_one_line_and_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert node_store.main([str(tmp_path / "file" / "node-1")]) == 1
    assert capsys.readouterr().err.startswith("cannot prepare the node's store: ")
