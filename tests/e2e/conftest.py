"""One cluster of two nodes for all tests here."""

from collections.abc import Callable, Iterator

import pytest

from cluster import provider
from cluster.binaries import Say

Kubectl = Callable[..., str]


@pytest.fixture(scope="session")
def cluster(pytestconfig: pytest.Config, say: Say) -> Iterator[provider.Cluster]:
    """A real cluster; which one is the choice of who runs the tests."""
    with provider.start(pytestconfig.option.cluster, say) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def kubectl(cluster: provider.Cluster) -> Kubectl:
    """`kubectl(*arguments, input=None)` as an administrator; returns what it printed."""
    return cluster.kubectl
