"""Programs of other parameter-server systems find their peers."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harmony_api.peer_environment import peer_environment

WORKERS = [f"job-worker-{index}.job.default.svc:29500" for index in range(3)]
SERVERS = [f"job-server-{index}.job.default.svc:29500" for index in range(2)]


def test_a_server_is_a_ps_task_and_no_worker_of_ps_lite() -> None:
    environment = peer_environment(role="server", index=1, workers=WORKERS, servers=SERVERS)
    assert environment["DMLC_ROLE"] == "server"
    assert "DMLC_WORKER_ID" not in environment
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"worker": WORKERS, "ps": SERVERS},
        "task": {"type": "ps", "index": 1},
    }


def test_a_worker_knows_the_scheduler_and_how_many_take_part() -> None:
    environment = peer_environment(role="worker", index=2, workers=WORKERS, servers=SERVERS)
    environment.pop("TF_CONFIG")
    assert environment == {
        "DMLC_ROLE": "worker",
        "DMLC_WORKER_ID": "2",
        "DMLC_NUM_WORKER": "3",
        "DMLC_NUM_SERVER": "2",
        "DMLC_PS_ROOT_URI": "job-server-0.job.default.svc",
        "DMLC_PS_ROOT_PORT": "29499",
    }


@given(st.lists(st.integers(1024, 65535), min_size=2, max_size=20, unique=True))
def test_the_scheduler_has_a_port_of_its_own_where_all_share_a_host(ports: list[int]) -> None:
    workers, servers = ([f"127.0.0.1:{port}" for port in half] for half in (ports[1:], ports[:1]))
    environments = [
        peer_environment(role="worker", index=index, workers=workers, servers=servers)
        for index in range(len(workers))
    ]
    assert len({environment["DMLC_PS_ROOT_PORT"] for environment in environments}) == 1
    assert int(environments[0]["DMLC_PS_ROOT_PORT"]) not in ports
