"""An operator process, nodes that do not exist, and a namespace that is also the operator's own."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from operator_runs import Cluster, OperatorProcess

from cluster.api_server import ApiServer
from cluster.stub_nodes import StubNodes

StartOperator = Callable[..., OperatorProcess]


@pytest.fixture
def here(api_server: ApiServer, namespace: str) -> Iterator[Cluster]:
    """The namespace of the test, whose jobs end with it."""
    cluster = Cluster(api_server, namespace)
    yield cluster
    cluster.kubectl("delete", "harmonyjobs,harmonygroups", "--all", "--ignore-not-found")


@pytest.fixture
def nodes(api_server: ApiServer, namespace: str) -> Iterator[StubNodes]:
    """Two nodes that run every pod of Harmony's."""
    with StubNodes(api_server, [f"{namespace}-a", f"{namespace}-b"]) as stub:
        yield stub


@pytest.fixture
def start_operator(
    api_server: ApiServer, namespace: str, tmp_path: Path
) -> Iterator[StartOperator]:
    """`start_operator(name, kubeconfig, **settings)` starts one; all end with the test."""
    started: list[OperatorProcess] = []

    def start(
        name: str = "operator", kubeconfig: Path | None = None, **settings: str
    ) -> OperatorProcess:
        operator = OperatorProcess(
            kubeconfig or api_server.kubeconfig,
            namespace,
            tmp_path,
            f"{namespace}-{name}",
            **settings,
        )
        started.append(operator)
        operator.start()
        return operator

    yield start
    for operator in started:
        operator.stop()


@pytest.fixture
def operator(start_operator: StartOperator) -> OperatorProcess:
    """One operator that leads."""
    process = start_operator()
    process.wait_leading()
    return process
