"""The tiers of tests, and what those need that talk to a real Kubernetes.

Programs and images are built before the first test runs, so that the minutes this takes once
count against no test's time limit. Where that is not possible, the tests say what to do about it.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from cluster import binaries, images

TESTS = Path(__file__).parent
TIERS = ("api", "e2e")
CLUSTER_HELP = "cluster for the e2e tests: native (the default, needs root), kind, or a kubeconfig"

Kubectl = Callable[..., str]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", default="native", help=CLUSTER_HELP)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        for tier in TIERS:
            if item.path.is_relative_to(TESTS / tier):
                item.add_marker(tier)


def pytest_collection_finish(session: pytest.Session) -> None:
    if session.config.option.collectonly:
        return
    for tier, prepare in (("api", prepare_api), ("e2e", prepare_e2e)):
        items = [item for item in session.items if item.get_closest_marker(tier)]
        try:
            if items:
                prepare(session.config)
        except binaries.NotPossibleError as reason:
            for item in items:
                item.add_marker(pytest.mark.skip(reason=str(reason)))


def prepare_api(config: pytest.Config) -> None:
    binaries.ensure(binaries.API_SERVER_PROGRAMS, binaries.API_SERVER_TOOLS, teller(config))


def prepare_e2e(config: pytest.Config) -> None:
    choice = config.option.cluster
    if choice == "native" and os.geteuid() != 0:
        raise binaries.NotPossibleError("run as root, or name a cluster with --cluster")
    binaries.ensure(say=teller(config))
    if choice in {"native", "kind"}:
        images.build(images.ALL, teller(config))


def teller(config: pytest.Config) -> binaries.Say:
    """Return what tells the person at the terminal, also while output is captured."""
    capture = config.pluginmanager.getplugin("capturemanager")
    terminal = config.get_terminal_writer()

    def line(text: str) -> None:
        with capture.global_and_fixture_disabled():
            terminal.line(text)

    return line


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> binaries.Say:
    """Tells the person at the terminal what takes long."""
    return teller(pytestconfig)


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
    kubectl("delete", "namespace", name, "--wait=false")
