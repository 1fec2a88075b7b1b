"""Harmony itself, installed on a test cluster from the chart as a user would install it."""

import subprocess
from pathlib import Path

from cluster import binaries

CHART = Path(__file__).parents[2] / "charts" / "harmony"
NAMESPACE = "harmony-system"
# The driver of the test cluster offers its devices under this name.
VALUES = {"gpu.deviceClass": "gpu.example.com"}
TIMEOUT = "180s"


def install(kubeconfig: Path, **values: str) -> None:
    """Install the chart, or upgrade to it, with `values`, and wait until it is available."""
    chosen = {**VALUES, **values}.items()
    settings = [f"--set={name}={value}" for name, value in chosen]
    place = (f"--kubeconfig={kubeconfig}", f"--namespace={NAMESPACE}", "--create-namespace")
    wait = ("--wait", f"--timeout={TIMEOUT}")
    helm = (binaries.path("helm"), "upgrade", "--install", "harmony", CHART)
    done = subprocess.run([*helm, *settings, *place, *wait], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"helm: {done.stderr}")
