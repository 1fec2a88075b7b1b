"""The quick start does what it says, word by word."""

import re
import subprocess
from pathlib import Path

import pytest
from e2e_jobs import Jobs, Kubectl

from cluster import binaries
from cluster.provider import Cluster

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "quickstart.md"
SUSPEND = '"suspend":true'


@pytest.mark.timeout(900)
def test_the_commands_of_the_quick_start_work_in_their_order(
    harmony: None, cluster: Cluster, kubectl: Kubectl, tmp_path: Path
) -> None:
    jobs = Jobs("default", kubectl)
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    shell = [one for one in blocks if "make cluster" not in one and "export" not in one]
    assert len(shell) >= 8
    try:
        for block in shell:
            if "logs mlp-worker-0" in block:
                jobs.wait_for("mlp", "Running")
                jobs.wait_for("transformer", "Running")
            if SUSPEND in block:
                jobs.wait_for("alone", "Running")
            run(block.replace(" --watch", ""), cluster, tmp_path)
            if SUSPEND in block:
                jobs.wait_for("alone", "Suspended")
        jobs.wait("nothing is left", lambda: not jobs.all("pods"))
    finally:
        kubectl("uncordon", *cluster.nodes)
        kubectl("delete", "hj", "--all")


def run(block: str, cluster: Cluster, home: Path) -> None:
    tools = binaries.path("kubectl").parent
    environment = {
        "HOME": str(home),
        "KUBECONFIG": str(cluster.kubeconfig),
        "PATH": f"{tools}:/usr/bin:/bin",
    }
    done = subprocess.run(
        ["bash", "-eu", "-c", block], cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, f"{block}\n{done.stdout}{done.stderr}"
