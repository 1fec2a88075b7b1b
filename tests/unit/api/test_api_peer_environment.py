"""Programs of other parameter-server systems find their peers."""

import json

from harmony_api.peer_environment import peer_environment

WORKERS = [f"job-worker-{index}.job.default.svc:29500" for index in range(3)]
SERVERS = [f"job-server-{index}.job.default.svc:29500" for index in range(2)]
SCHEDULER = "job-server-0.job.default.svc:29499"


def test_a_server_is_a_ps_task_and_no_worker_of_ps_lite() -> None:
    environment = peer_environment(
        role="server", index=1, workers=WORKERS, servers=SERVERS, scheduler=SCHEDULER
    )
    assert environment["DMLC_ROLE"] == "server"
    assert "DMLC_WORKER_ID" not in environment
    assert json.loads(environment["TF_CONFIG"]) == {
        "cluster": {"worker": WORKERS, "ps": SERVERS},
        "task": {"type": "ps", "index": 1},
    }


def test_a_worker_knows_the_scheduler_and_how_many_take_part() -> None:
    environment = peer_environment(
        role="worker", index=2, workers=WORKERS, servers=SERVERS, scheduler=SCHEDULER
    )
    environment.pop("TF_CONFIG")
    assert environment == {
        "DMLC_ROLE": "worker",
        "DMLC_WORKER_ID": "2",
        "DMLC_NUM_WORKER": "3",
        "DMLC_NUM_SERVER": "2",
        "DMLC_PS_ROOT_URI": "job-server-0.job.default.svc",
        "DMLC_PS_ROOT_PORT": "29499",
    }
