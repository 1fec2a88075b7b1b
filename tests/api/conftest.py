"""One API server for all tests here."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cluster.api_server import ApiServer
from cluster.local_api_server import local_api_server

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def api_server(crds: list[Path]) -> Iterator[ApiServer]:
    """A real API server that knows Harmony's resources."""
    with local_api_server() as server:
        server.define(crds)
        yield server


@pytest.fixture(scope="session")
def kubectl(api_server: ApiServer) -> Kubectl:
    """`kubectl(*arguments, input=None)` as an administrator; returns what it printed."""
    return api_server.kubectl
