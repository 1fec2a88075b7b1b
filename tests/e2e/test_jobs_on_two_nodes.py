"""Jobs whose workers share GPUs on two nodes: one order everywhere, and nobody waits for ever."""

import json

import pytest
from e2e_jobs import Jobs, device_in, example, named, telling_losses

from cluster.provider import Cluster
from harmony_api.turn_checks import overlapping_compute_turns

ITERATIONS = 80


@pytest.mark.timeout(900)
def test_two_jobs_of_two_workers_share_two_nodes_in_one_order(
    jobs: Jobs, one_gpu_each: None, cluster: Cluster
) -> None:
    one = example("digits_mlp", iterations=ITERATIONS, gpusPerWorker=1, replicas=2)
    both = [telling_losses(named(one, name)) for name in ("first", "second")]
    jobs.apply(*both)
    with jobs.recorded("first", "second") as record:
        for name in ("first", "second"):
            jobs.wait_for(name, "Running")
        pods = {name: jobs.pods(name) for name in ("first", "second")}
        nodes = {name: [pod["spec"]["nodeName"] for pod in of] for name, of in pods.items()}
        assert sorted(nodes["first"]) == sorted(cluster.nodes)
        assert list(map(device_in, pods["first"])) == list(map(device_in, pods["second"]))
        [group] = jobs.all("harmonygroups")
        in_order = [one["job"] for one in sorted(group["spec"]["members"], key=_order)]
        for pod in (*pods["first"], *pods["second"]):
            plan = json.loads(
                jobs.get("pod", pod["metadata"]["name"])["metadata"]["annotations"][
                    "harmony.dev/node-plan"
                ]
            )
            members = sorted(plan["members"], key=_order)
            assert [one["job"].rpartition("/")[2] for one in members] == in_order
        for name in ("first", "second"):
            jobs.wait_for(name, "Succeeded")
    for node in cluster.nodes:
        there = [
            turn
            for name in ("first", "second")
            for index, where in enumerate(nodes[name])
            if where == node
            for turn in record.turns[name, index]
        ]
        assert sum(turn.phase == "COMP" and turn.turn > 0 for turn in there) > ITERATIONS
        assert overlapping_compute_turns(there) == []
    assert jobs.losses("first") == jobs.losses("second")
    assert len(jobs.losses("first")) == ITERATIONS


def _order(member: dict[str, int]) -> int:
    return member["order"]
