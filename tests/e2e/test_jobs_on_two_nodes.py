"""Jobs whose workers share GPUs on two nodes: one order everywhere, and nobody waits for ever."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_jobs import (
    STOPPED,
    Jobs,
    Kubectl,
    example,
    exit_code,
    named,
    slot_of,
    telling_losses,
    uids,
    with_examples_from_here,
)

from cluster.harmony import install
from cluster.provider import Cluster
from harmony_api.turn_checks import overlapping_compute_turns
from local_run_harness import harmony_run

ITERATIONS = 30
NAMES = ("first", "second")


@pytest.mark.timeout(900)
def test_two_jobs_of_two_workers_share_two_nodes_in_one_order(
    jobs: Jobs, one_gpu_each: None, cluster: Cluster, tmp_path: Path
) -> None:
    one = example("digits_mlp", iterations=ITERATIONS, gpusPerWorker=1, replicas=2)
    both = [named(one, name) for name in NAMES]
    with harmony_run(tmp_path, with_examples_from_here(one)) as run:
        assert run.finish() == 0, run.output()
        locally = [run.losses("digits-mlp", index) for index in range(2)]
    jobs.apply(*map(telling_losses, both))
    with jobs.recorded(*NAMES) as record:
        for name in NAMES:
            jobs.wait_for(name, "Running")
        pods = {name: jobs.pods(name) for name in NAMES}
        nodes = {name: [pod["spec"]["nodeName"] for pod in of] for name, of in pods.items()}
        assert sorted(nodes["first"]) == sorted(cluster.nodes)
        assert list(map(slot_of, pods["first"])) == list(map(slot_of, pods["second"]))
        [group] = jobs.all("harmonygroups")
        in_order = [one["job"] for one in sorted(group["spec"]["members"], key=_order)]
        for pod in (*pods["first"], *pods["second"]):
            members = sorted(jobs.node_plan(pod["metadata"]["name"])["members"], key=_order)
            assert [one["job"].rpartition("/")[2] for one in members] == in_order
        for name in NAMES:
            jobs.wait_for(name, "Succeeded")
    for node in cluster.nodes:
        there = [
            turn
            for name in NAMES
            for index, where in enumerate(nodes[name])
            if where == node
            for turn in record.turns[name, index]
        ]
        assert sum(turn.phase == "COMP" and turn.turn > 0 for turn in there) > ITERATIONS
        assert overlapping_compute_turns(there) == []
    for index, losses in enumerate(locally):
        assert len(losses) == ITERATIONS
        for name in NAMES:
            told = record.losses[name, index] | jobs.losses(name, index)
            assert told == losses, "each trains to the losses of a local run, where it is alone"


@pytest.fixture
def two_cpu_slots(cluster: Cluster, kubectl: Kubectl, harmony: None) -> Iterator[None]:
    """Two CPU slots on every node; those of the second node are shut at first."""
    install(cluster.kubeconfig, cpuSlotsPerNode="2")
    kubectl("cordon", cluster.nodes[1])
    yield
    kubectl("uncordon", cluster.nodes[1])
    install(cluster.kubeconfig)


@pytest.mark.timeout(900)
def test_a_job_moves_at_an_iteration_boundary_and_nothing_counts_as_a_failure(
    jobs: Jobs, two_cpu_slots: None, cluster: Cluster, kubectl: Kubectl
) -> None:
    one = example("digits_mlp", iterations=1_000_000, replicas=2)
    del one["spec"]["sharing"]
    jobs.apply(*(telling_losses(named(one, name)) for name in NAMES))
    for name in NAMES:
        jobs.wait(f"{name} is measured", lambda name=name: jobs.status(name).get("profiles"))
    pods = {name: jobs.pods(name) for name in NAMES}
    servers = {name: uids(jobs.pods(name, "server")) for name in pods}
    for pod in (*pods["first"], *pods["second"]):
        jobs.hold(pod["metadata"]["name"])
    kubectl("uncordon", cluster.nodes[1])

    def stopped() -> str:
        for name, workers in pods.items():
            seen = [jobs.get("pod", pod["metadata"]["name"]) for pod in workers]
            if all(exit_code(pod, "worker") is not None for pod in seen):
                assert [exit_code(pod, "worker") for pod in seen] == [STOPPED, STOPPED]
                return name
        return ""

    mover = jobs.wait("one of them leaves the slots that they share", stopped)
    ends = {max(jobs.losses(mover, index)) for index in range(2)}
    assert len(ends) == 1, "both workers stop at one iteration"
    for pod in (*pods["first"], *pods["second"]):
        jobs.let_go(pod["metadata"]["name"])
    jobs.wait(
        "it trains on the other node",
        lambda: (
            {pod["spec"].get("nodeName") for pod in jobs.pods(mover)} == {cluster.nodes[1]}
            and jobs.losses(mover)
        ),
    )
    assert min(jobs.losses(mover)) == ends.pop() + 1, "it goes on where it stopped"
    assert jobs.status(mover)["restarts"] == 0
    assert uids(jobs.pods(mover, "server")) == servers[mover], "its servers stay"
    [stayer] = pods.keys() - {mover}
    assert uids(jobs.pods(stayer)) == uids(pods[stayer])


def _order(member: dict[str, int]) -> int:
    return member["order"]
