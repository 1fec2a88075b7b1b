"""Which cluster the tests of the upper tiers use, and that its programs are there.

What those tests need is built before the first test runs, so that the minutes this takes once
count against no test's time limit.
"""

from pathlib import Path

import pytest

from cluster import binaries

CLUSTER_HELP = (
    "cluster of the e2e tests: native (default, needs root), kind, or a kubeconfig's path"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cluster", default="native", help=CLUSTER_HELP)


def pytest_collection_finish(session: pytest.Session) -> None:
    config = session.config
    if config.option.collectonly:
        return
    for tier in ("api",):
        items = [item for item in session.items if item.get_closest_marker(tier)]
        if not items:
            continue
        try:
            prepare_api(config)
        except binaries.NotPossibleError as reason:
            for item in items:
                item.add_marker(pytest.mark.skip(reason=str(reason)))


def prepare_api(config: pytest.Config) -> None:
    say = config.get_terminal_writer().line
    binaries.ensure(binaries.API_SERVER_PROGRAMS, binaries.API_SERVER_TOOLS, say)


@pytest.fixture(scope="session")
def crds() -> Path:
    """The folder of Harmony's custom resource definitions."""
    return Path(__file__).parents[1] / "crds"
