"""The real `helm`, and the chart as it renders."""

import subprocess

import pytest
import yaml
from chart_objects import CHART, KUBERNETES_VERSION, Helm, Objects, Render

from cluster import binaries


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
