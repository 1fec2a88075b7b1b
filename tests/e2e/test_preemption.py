"""A job of higher priority takes a slot, and gives it back: nothing that was learned is lost."""

from collections.abc import Iterator

import pytest
from e2e_jobs import Jobs, Kubectl, training, uids

from cluster.provider import Cluster

EXCLUSIVE = {"policy": "Exclusive"}


@pytest.fixture
def urgent(kubectl: Kubectl, namespace: str) -> Iterator[str]:
    """The name of a priority class above the default."""
    kubectl("create", "priorityclass", namespace, "--value=1000")
    yield namespace
    kubectl("delete", "priorityclass", namespace)


@pytest.fixture
def one_slot(cluster: Cluster, kubectl: Kubectl, harmony: None) -> Iterator[None]:
    """There is one CPU slot."""
    kubectl("cordon", *cluster.nodes[1:])
    yield
    kubectl("uncordon", *cluster.nodes[1:])


@pytest.mark.timeout(900)
def test_a_job_makes_way_at_an_iteration_boundary_and_goes_on_from_there(
    jobs: Jobs, one_slot: None, urgent: str
) -> None:
    jobs.apply(training("low", sharing=EXCLUSIVE))
    jobs.wait_for_iteration("low", 20)
    servers = uids(jobs.pods("low", "server"))
    jobs.hold("low-worker-0")
    jobs.apply(training("high", 200, sharing=EXCLUSIVE, priorityClassName=urgent))

    end = jobs.last_iteration("low")
    jobs.wait_for("low", "Suspended", reason="Preempted")
    admitted = jobs.condition("low", "Admitted")
    assert (admitted["status"], admitted["reason"]) == ("False", "Preempted")
    assert f"{jobs.namespace}/high, whose priority 1000 is above its 0" in admitted["message"]
    assert jobs.status("low")["state"] == "Preempted"
    assert uids(jobs.pods("low", "server")) == servers

    jobs.wait_for("high", "Succeeded")
    jobs.wait_for("low", "Running")
    jobs.wait("it trains again", lambda: jobs.losses("low"))
    assert min(jobs.losses("low")) == end + 1, "it goes on where it stopped"
    assert uids(jobs.pods("low", "server")) == servers, "its servers stayed all the time"
    assert jobs.status("low")["restarts"] == 0
    told = [(one["reason"], one.get("count", 1)) for one in jobs.events("low")]
    assert told.count(("Preempted", 1)) == 1
    assert told.count(("Resumed", 1)) == 1
    jobs.kubectl("delete", "hj", "low")
    jobs.wait("its slot is free", lambda: not jobs.pods("low"))
