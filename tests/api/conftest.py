"""One API server for all tests here, and a namespace for each."""

from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from cluster.api_server import ApiServer
from cluster.local_api_server import local_api_server
from cluster.waiting import until

Kubectl = Callable[..., str]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.api)


@pytest.fixture(scope="session")
def api_server(crds: Path) -> Iterator[ApiServer]:
    """A real API server that knows Harmony's resources."""
    with local_api_server() as server:
        for definition in sorted(crds.glob("*.yaml")):
            server.kubectl("apply", "--server-side", "--filename", str(definition))
        until(
            lambda: served(server) == {"harmonyjobs", "harmonygroups"},
            seconds=30,
            what="Harmony's resources are served",
        )
        yield server


def served(server: ApiServer) -> set[str]:
    """Return which of Harmony's resources clients can find by now."""
    names = server.kubectl("api-resources", "--api-group=harmony.dev", "--output=name").split()
    return {name.removesuffix(".harmony.dev") for name in names}


@pytest.fixture(scope="session")
def kubectl(api_server: ApiServer) -> Kubectl:
    """`kubectl(*arguments, input=None)` as an administrator; returns what it printed."""
    return api_server.kubectl


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """The name of a namespace of this test's own."""
    name = f"test-{uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false")
