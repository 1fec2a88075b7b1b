"""What is different in a pod: names instead of addresses, the first process, other users' pipes."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from worker_processes import DEADLINE_SECONDS, MakeJob

pytestmark = [
    pytest.mark.training,
    pytest.mark.root,
    pytest.mark.skipif(os.geteuid() != 0, reason="users and namespaces need root"),
]

SERVER_NAME = "job-server-0.job.research.svc"
FIRST_PROCESS = ("unshare", "--pid", "--fork", "--mount-proc")


def with_hosts(hosts: Path) -> list[str]:
    """Run a command for which `hosts` is all that names resolve by."""
    switch = hosts.with_name("nsswitch.conf")
    switch.write_text("hosts: files\n")
    mount = (
        f'mount --bind {hosts} /etc/hosts && mount --bind {switch} /etc/nsswitch.conf && exec "$@"'
    )
    return ["unshare", "--mount", "sh", "-c", mount, "sh"]


def test_a_server_is_found_once_its_name_resolves_and_again_at_another_address(
    make_job: MakeJob, tmp_path: Path
) -> None:
    hosts = tmp_path / "hosts"
    hosts.write_text("127.0.0.1 localhost\n")
    job = make_job("named", "digits_mlr.py", "--iterations", "400")
    job.command = [*with_hosts(hosts), *job.command]
    job.start_servers(snapshot_interval_seconds=0.1)
    port = job.addresses[0].rpartition(":")[2]
    job.start_worker(HARMONY_SERVERS=f"{SERVER_NAME}:{port}")
    job.wait_until(
        lambda: f"waiting for server {SERVER_NAME}:{port}" in job.log("worker-0"),
        "a line that names the server",
    )
    hosts.write_text(f"127.0.0.1 {SERVER_NAME}\n")
    job.wait_for_iteration(20)
    job.wait_for_snapshots()
    hosts.write_text(f"127.0.0.2 {SERVER_NAME}\n")
    job.addresses = [f"127.0.0.2:{port}"]
    job.replace_server(0)
    job.finish()
    assert sorted(job.losses()) == list(range(400))


def end_first_process(command: list[str], environment: dict[str, str]) -> int:
    """Start a command as the first process, end it once it heeds SIGTERM; return its code."""
    with subprocess.Popen([*FIRST_PROCESS, *command], env=os.environ | environment) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        wait_until(lambda: children.read_text().strip())
        first = int(children.read_text())
        wait_until(lambda: handles_sigterm(first))
        os.kill(first, signal.SIGTERM)
        return process.wait(DEADLINE_SECONDS)


def handles_sigterm(pid: int) -> bool:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    caught = next(line.split()[1] for line in lines if line.startswith("SigCgt"))
    return bool(int(caught, 16) & 1 << signal.SIGTERM - 1)


def wait_until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_sigterm_ends_a_worker_that_is_the_first_process_of_its_container() -> None:
    program = "import harmony_worker as harmony, time\nwith harmony.connect(): time.sleep(600)"
    assert end_first_process([sys.executable, "-c", program], {}) == 143


def test_sigterm_ends_a_server_that_is_still_loading() -> None:
    command = [sys.executable, "-m", "harmony_worker.parameter_server"]
    place = {
        "HARMONY_JOB": "job",
        "HARMONY_SERVER_INDEX": "0",
        "HARMONY_SERVERS": f"{SERVER_NAME}:0",
        "HARMONY_WORKERS": "1",
    }
    assert end_first_process(command, place) == 143


def test_losses_go_to_a_standard_output_that_belongs_to_another_user() -> None:
    program = (
        "from pathlib import Path; from harmony_worker.loss_log import LossLog\n"
        "print('before', flush=True); LossLog(Path('/dev/stdout')).write(3, 0.5)"
    )
    as_nobody = (
        *("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"),
        *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),
    )
    ended = subprocess.run(
        [*as_nobody, sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    before, line = ended.stdout.splitlines()
    assert before == "before"
    assert json.loads(line) == {"iteration": 3, "loss": 0.5, "hex": "0x1.0000000000000p-1"}
