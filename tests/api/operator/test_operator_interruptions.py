"""What the operator survives: its own death at every step, a twin, an API server that is away."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

import pytest
from counting_proxy import CountingProxy
from operator_runs import SECONDS, Cluster, OperatorProcess, Raw, job
from stub_devices import gpu_job, plugged, sliced

from cluster.stub_nodes import StubNodes
from cluster.waiting import until

EVERYTHING = "hj,hg,pods,services,resourceclaims"


@contextmanager
def bound_by(binding: str, here: Cluster, nodes: StubNodes) -> Iterator[tuple[Raw, dict[str, str]]]:
    """Yield a job of one worker and the operator's settings."""
    devices = {
        "none": nullcontext({}),
        "claim": sliced(here, nodes),
        "reservation": plugged(nodes, "127.71.0.3"),
    }[binding]
    with devices as settings:
        yield job(workers=1) if binding == "none" else gpu_job(), settings


def until_revived(what: str, condition: Callable[[], object], operator: OperatorProcess) -> None:
    """Wait for a condition; an operator that was killed is started again, as a kubelet does."""

    def holds() -> object:
        if not operator.alive:
            operator.start()
        return condition()

    until(holds, seconds=4 * SECONDS, what=what, details=operator.log.read_text)


def state(here: Cluster) -> str:
    word: str = (here.job("mlr").get("status") or {}).get("state") or ""
    return word


@pytest.mark.parametrize("binding", ["none", "reservation"])
def test_killed_after_every_single_write_it_takes_a_job_to_the_same_end(
    here: Cluster, nodes: StubNodes, start_operator, tmp_path: Path, binding: str
) -> None:
    with (
        bound_by(binding, here, nodes) as (manifest, settings),
        CountingProxy(here.server, tmp_path) as proxy,
    ):
        operator: OperatorProcess = start_operator(kubeconfig=proxy.kubeconfig, **settings)
        operator.wait_leading()
        proxy.after_write = operator.kill
        here.apply(manifest)
        until_revived("it runs", lambda: state(here) == "Running", operator)
        pods = here.names("pods")
        assert {"mlr-server-0", "mlr-worker-0"} <= pods
        assert len(pods) == (3 if binding == "reservation" else 2), pods
        nodes.end(here.namespace, "mlr-worker-0")
        until_revived("it is over", lambda: state(here) == "Succeeded", operator)
        left = {"mlr", "mlr-worker-0"}
        until_revived("only the worker is left", lambda: here.names(EVERYTHING) == left, operator)
        assert here.job("mlr")["status"]["restarts"] == 0
        assert {nodes.starts[here.namespace, pod] for pod in pods} == {1}
        here.patch("hj/mlr", {"spec": {"ttlSecondsAfterFinished": 0}})
        until_revived("nothing is left", lambda: not here.names(EVERYTHING), operator)
        assert len(proxy.writes) >= 8, proxy.writes


@pytest.mark.parametrize("binding", ["claim", "reservation"])
def test_killed_after_every_single_write_it_suspends_resumes_and_clears_up_after_a_job(
    here: Cluster, nodes: StubNodes, start_operator, tmp_path: Path, binding: str
) -> None:
    with (
        bound_by(binding, here, nodes) as (manifest, settings),
        CountingProxy(here.server, tmp_path) as proxy,
    ):
        operator: OperatorProcess = start_operator(kubeconfig=proxy.kubeconfig, **settings)
        here.apply(manifest)
        here.wait_condition("mlr", "Running")
        proxy.after_write = operator.kill
        here.patch("hj/mlr", {"spec": {"suspend": True}})
        kept = {"mlr", "mlr-server-0"}
        until_revived("it is suspended", lambda: state(here) == "Suspended", operator)
        until_revived("it holds no slot", lambda: here.names(EVERYTHING) == kept, operator)
        here.patch("hj/mlr", {"spec": {"suspend": False}})
        until_revived("it runs again", lambda: state(here) == "Running", operator)
        assert here.job("mlr")["status"]["restarts"] == 0
        assert nodes.starts[here.namespace, "mlr-worker-0"] == 2
        assert nodes.starts[here.namespace, "mlr-server-0"] == 1
        here.kubectl("delete", "hj", "mlr", "--timeout=30s")
        until_revived("nothing is left", lambda: not here.names(EVERYTHING), operator)


def test_a_failed_worker_is_counted_once_though_the_operator_is_killed_after_every_write(
    here: Cluster, nodes: StubNodes, start_operator, tmp_path: Path
) -> None:
    with CountingProxy(here.server, tmp_path) as proxy:
        operator: OperatorProcess = start_operator(kubeconfig=proxy.kubeconfig)
        here.apply(job(workers=1))
        here.wait_condition("mlr", "Running")
        proxy.after_write = operator.kill
        nodes.end(here.namespace, "mlr-worker-0", exit_code=1)

        def running_again() -> bool:
            if not operator.alive:
                operator.start()
            replaced = nodes.starts[here.namespace, "mlr-worker-0"] == 2
            return replaced and here.conditions("mlr")["Running"]["status"] == "True"

        until(
            running_again, seconds=4 * SECONDS, what="it runs again", details=operator.log.read_text
        )
        proxy.after_write = lambda: None
        assert here.job("mlr")["status"]["restarts"] == 1
        operator.stop()
        operator.start()
        nodes.end(here.namespace, "mlr-worker-0")
        here.wait_condition("mlr", "Succeeded")


def test_of_two_operators_one_works_and_the_other_takes_over(
    here: Cluster, nodes: StubNodes, start_operator, tmp_path: Path
) -> None:
    with (
        CountingProxy(here.server, tmp_path) as first_proxy,
        CountingProxy(here.server, tmp_path / "..") as second_proxy,
    ):
        first: OperatorProcess = start_operator("first", kubeconfig=first_proxy.kubeconfig)
        first.wait_leading()
        second: OperatorProcess = start_operator("second", kubeconfig=second_proxy.kubeconfig)
        until(
            lambda: f"{first.name} holds the Lease" in second.log.read_text(),
            seconds=SECONDS,
            what="the second one waits",
            details=second.log.read_text,
        )
        here.apply(job())
        here.wait_condition("mlr", "Running")
        assert first_proxy.writes
        assert not second_proxy.writes

        first.kill()
        for index in range(2):
            nodes.end(here.namespace, f"mlr-worker-{index}")
        here.wait_condition("mlr", "Succeeded")
        assert second_proxy.writes


def test_an_operator_that_is_told_to_end_hands_the_lease_over_at_once(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    first: OperatorProcess = start_operator("first")
    first.wait_leading()
    first.stop()
    leases = here.kubectl("get", "lease", "harmony-operator", "-ojsonpath={.spec.holderIdentity}")
    assert leases == ""
    second: OperatorProcess = start_operator("second")
    second.wait_leading()


def test_an_operator_that_lost_its_lease_ends(
    here: Cluster, nodes: StubNodes, operator: OperatorProcess
) -> None:
    here.patch("lease/harmony-operator", {"spec": {"holderIdentity": "somebody-else"}})
    operator.wait_end()


def test_what_happened_while_the_api_server_was_away_is_caught_up_with(
    here: Cluster, nodes: StubNodes, operator: OperatorProcess
) -> None:
    here.apply(job())
    here.wait_condition("mlr", "Running")
    here.server.stop()
    until(
        lambda: "the Lease cannot be written" in operator.log.read_text() or not operator.alive,
        seconds=SECONDS,
        what="the outage is noticed",
    )
    here.server.start()
    for index in range(2):
        nodes.end(here.namespace, f"mlr-worker-{index}")
    if not operator.alive:  # the outage was longer than its Lease: the kubelet would restart it
        operator.start()
    here.wait_condition("mlr", "Succeeded")
    here.wait("the servers are gone", lambda: "mlr-server-0" not in here.names("pods"))


def test_what_disappeared_while_nobody_watched_is_noticed_after_the_start(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    operator: OperatorProcess = start_operator()
    here.apply(job(workers=1))
    here.wait_condition("mlr", "Running")
    operator.kill()
    operator.wait_end()
    here.kubectl("delete", "pod", "mlr-worker-0", "--timeout=30s")
    operator.start()
    here.wait("a new worker runs", lambda: nodes.starts[here.namespace, "mlr-worker-0"] == 2)
    here.wait_condition("mlr", "Running")


def test_jobs_and_namespaces_can_be_deleted_without_an_operator(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    operator: OperatorProcess = start_operator()
    here.apply(job("one"), job("two", workers=1))
    here.wait_condition("one", "Running")
    here.wait_condition("two", "Running")
    operator.kill()
    operator.wait_end()
    here.kubectl("delete", "harmonyjob", "one", "--timeout=30s")
    here.wait(
        "its children are gone",
        lambda: not {name for name in here.names("pods,services") if name.startswith("one")},
    )
    here.server.kubectl("delete", "namespace", here.namespace, "--timeout=60s")
