"""The tiers of tests, and what those need that talk to a real Kubernetes.

Programs and images are built before the first test runs, so that the minutes this takes once
count against no test's time limit. Where that is not possible, the tests say what to do about it.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from uuid import uuid4

import pytest

from cluster import binaries, provider
from cluster.binaries import API_SERVER_PROGRAMS, API_SERVER_TOOLS

TESTS = Path(__file__).parent
TIERS = ("api", "chart", "e2e")
CLUSTER_HELP = "cluster for the e2e tests: native (the default, needs root), kind, or a kubeconfig"
EVERY_TIER_HELP = "a tier of tests that is not possible here fails instead of being skipped"

# What was in the way of a test's programs and images: it fails, and the other tiers' go on.
PROBLEM = pytest.StashKey[Exception]()

Kubectl = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", default="native", help=CLUSTER_HELP)
    parser.addoption("--every-tier", action="store_true", help=EVERY_TIER_HELP)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for tier in TIERS:
            if item.path.is_relative_to(TESTS / tier):
                item.add_marker(tier)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.option.collectonly:
        return
    say = config.get_terminal_writer().line
    for tier, prepare in (
        ("api", partial(binaries.ensure, API_SERVER_PROGRAMS, API_SERVER_TOOLS, say)),
        ("chart", partial(binaries.ensure, ["helm", *API_SERVER_PROGRAMS], API_SERVER_TOOLS, say)),
        ("e2e", partial(provider.prepare, config.option.cluster, say)),
    ):
        items = [item for item in session.items if item.get_closest_marker(tier)]
        try:
            if items:
                prepare()
        except binaries.NotPossibleError as reason:
            for item in items:
                if config.option.every_tier:
                    item.stash[PROBLEM] = reason
                else:
                    item.add_marker(pytest.mark.skip(reason=str(reason)))
        except (OSError, RuntimeError) as problem:
            for item in items:
                item.stash[PROBLEM] = problem


def pytest_runtest_setup(item: pytest.Item) -> None:
    if problem := item.stash.get(PROBLEM, None):
        raise problem


@pytest.fixture(scope="session")
def crds() -> list[Path]:
    """The files of Harmony's custom resource definitions."""
    return sorted((TESTS.parent / "crds").glob("*.yaml"))


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """The name of a namespace of this test's own."""
    name = f"test-{uuid4().hex[:8]}"
    kubectl("create", "namespace", name)
    yield name
    kubectl("delete", "namespace", name, "--wait=false", "--ignore-not-found")
