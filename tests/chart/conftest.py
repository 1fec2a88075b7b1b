"""The real `helm`, and the chart as it renders."""

import subprocess
from pathlib import Path

import pytest
import yaml
from chart_objects import CHART, KUBERNETES_VERSION, Helm, Objects, Render

from cluster import binaries


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build helm before the first test, whose time limit it would exceed."""
    here = Path(__file__).parent
    items = [item for item in session.items if item.path.is_relative_to(here)]
    if not items or session.config.option.collectonly:
        return
    try:
        binaries.ensure(["helm"], [], session.config.get_terminal_writer().line)
    except binaries.NotPossibleError as reason:
        for item in items:
            item.add_marker(pytest.mark.skip(reason=str(reason)))


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Run helm and return what it printed; its own words are in the error."""

    def run(*arguments: str) -> str:
        command = [str(binaries.path("helm")), *arguments]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr)
        return done.stdout

    return run


@pytest.fixture(scope="session")
def render(helm: Helm) -> Render:
    """Render the chart with `--set` values and return its objects."""

    def run(*values: str) -> Objects:
        chosen = [word for value in values for word in ("--set", value)]
        place = ("--namespace", "harmony-system", "--kube-version", KUBERNETES_VERSION)
        text = helm("template", "harmony", str(CHART), *place, *chosen)
        return [document for document in yaml.safe_load_all(text) if document]

    return run
