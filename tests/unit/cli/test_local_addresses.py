"""No two processes of a run listen on one port, however scarce ports are."""

from pathlib import Path

import pytest

from harmony_api.job import HarmonyJob
from harmony_cli.local import processes
from harmony_cli.local.addresses import assign
from local_run_harness import manifest

JOBS = [HarmonyJob.model_validate(manifest(name, workers=2, servers=1)) for name in ("a", "b", "c")]


@pytest.fixture(autouse=True)
def few_ports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "ip_local_port_range"
    file.write_text("10012\t65535\n")
    monkeypatch.setattr(processes, "_EPHEMERAL_PORTS", file)


def test_no_two_processes_of_any_jobs_get_one_address() -> None:
    found = [
        address for job in assign(JOBS) for address in (*job.workers, *job.servers, job.scheduler)
    ]
    assert len(set(found)) == len(found) == 3 * (2 + 1 + 1)


def test_the_scheduler_is_beside_the_servers_on_a_link() -> None:
    (job,) = assign(JOBS[:1], worker_host="10.77.0.1", server_host="10.77.0.2")
    hosts = [address.partition(":")[0] for address in (*job.workers, *job.servers, job.scheduler)]
    assert hosts == ["10.77.0.1", "10.77.0.1", "10.77.0.2", "10.77.0.2"]
