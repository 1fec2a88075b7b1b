"""The process says what is wrong with its environment, and leaves."""

import os
import socket
import subprocess
import sys

import pytest

from harmony_worker.parameter_server.server import listen


def start(**variables: str) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HARMONY_")}
    return subprocess.run(
        [sys.executable, "-m", "harmony_worker.parameter_server"],
        env={**environment, **variables},
        capture_output=True,
        text=True,
        timeout=120,
    )


def test_a_missing_variable_is_named() -> None:
    ended = start(HARMONY_JOB="job")
    assert ended.returncode == 2
    assert (
        ended.stderr.strip() == "a parameter server needs HARMONY_SERVER_INDEX in its environment"
    )


def test_an_address_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = start(
            HARMONY_JOB="job",
            HARMONY_SERVER_INDEX="0",
            HARMONY_SERVERS=address,
            HARMONY_WORKERS="1",
        )
    assert ended.returncode == 2
    assert f"cannot listen on {address}" in ended.stderr


@pytest.mark.parametrize(
    ("address", "bound"),
    [("127.0.0.1:0", "127.0.0.1"), ("localhost:0", "127.0.0.1"), ("[::1]:0", "::1")],
)
def test_an_ip_address_is_bound_alone(address: str, bound: str) -> None:
    with listen(address) as listener:
        assert listener.getsockname()[0] == bound


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_a_name_is_bound_on_all_addresses_of_both_families(host: str) -> None:
    with listen("job-server-0.job.namespace.svc:0") as listener:
        socket.create_connection((host, listener.getsockname()[1]), timeout=10).close()
