"""Measures what an iteration of the project's examples costs, for the simulator's workloads.

Every setting is trained alone for some iterations with `harmony run --mode dedicated`: one
worker on one core; its server, and the transfers, on another. Written are the medians that its
sidecar measured. Run it on a machine that is otherwise idle.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import yaml

ROOT: Final = Path(__file__).parents[1]
EXAMPLES: Final = ROOT / "worker_image" / "examples"
PROFILES: Final = ROOT / "operator" / "harmony_simulator" / "workload" / "profiles.json"
SETTINGS: Final[Mapping[str, Sequence[str]]] = {
    "digits_mlr": [f"--batch-size {size}" for size in (64, 256, 512, 1024, 1797)],
    "digits_mlp": [
        "--width 1024 --batch-size 64",
        "--width 2048 --batch-size 64",
        "--width 2048 --batch-size 256",
        "--width 3072 --batch-size 48",
        "--width 3072 --batch-size 512",
    ],
    "char_transformer": [
        "--width 256 --layers 4 --heads 4 --context 64 --batch-size 4",
        "--width 256 --layers 4 --heads 4 --context 64 --batch-size 1",
        "--width 448 --layers 4 --heads 7 --context 32 --batch-size 2",
        "--width 448 --layers 4 --heads 7 --context 64 --batch-size 4",
        "--width 640 --layers 4 --heads 10 --context 32 --batch-size 1",
    ],
    "cooccurrence_factorisation": [
        "--vocabulary 4000 --width 64 --batch-size 1024",
        "--vocabulary 4000 --width 256 --batch-size 4096",
        "--vocabulary 8000 --width 128 --batch-size 2048",
        "--vocabulary 8000 --width 512 --batch-size 8192",
        "--vocabulary 8000 --width 256 --batch-size 16384",
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=60, help="of each setting")
    parser.add_argument("--output", type=Path, default=PROFILES)
    arguments = parser.parse_args()

    jobs = {
        f"{application.replace('_', '-')}-{number}": (application, options)
        for application, settings in SETTINGS.items()
        for number, options in enumerate(settings)
    }
    with tempfile.TemporaryDirectory() as folder:
        profiles = measure(jobs, arguments.iterations, Path(folder))
    phases = ("compute", "pull", "push", "update")
    found = {
        "how": (
            f"harmony run --mode dedicated, {arguments.iterations} iterations of each setting "
            "alone: medians, waiting excluded; one worker on one core, its server and the "
            f"transfers on another, on {platform.machine()}"
        ),
        "settings": [
            {
                "application": application,
                "arguments": options,
                **{
                    f"{phase}Microseconds": profiles[name][f"{phase}Microseconds"]
                    for phase in phases
                },
            }
            for name, (application, options) in jobs.items()
        ],
    }
    arguments.output.write_text(json.dumps(found, indent=1) + "\n", "utf-8")
    print(f"{len(jobs)} settings written to {arguments.output}")


def measure(
    jobs: Mapping[str, tuple[str, str]], iterations: int, folder: Path
) -> Mapping[str, Mapping[str, int]]:
    """Train the jobs one after the other and return the profile of each."""
    manifests = []
    for name, (application, options) in jobs.items():
        manifest = folder / f"{name}.yaml"
        manifest.write_text(
            yaml.safe_dump(build_manifest(name, application, options, iterations)), "utf-8"
        )
        manifests.append(str(manifest))
    run = folder / "run"
    command = ["-m", "harmony_cli", "run", "--mode", "dedicated", "--run-folder", str(run)]
    subprocess.run([sys.executable, *command, *manifests], check=True, stdout=subprocess.DEVNULL)
    summary = json.loads((run / "summary.json").read_bytes())
    return {job["name"]: job["profile"] for job in summary["jobs"]}


def build_manifest(
    name: str, application: str, options: str, iterations: int
) -> Mapping[str, object]:
    """The HarmonyJob of one setting."""
    container = {
        "name": "worker",
        "command": [sys.executable, str(EXAMPLES / f"{application}.py")],
        "args": options.split(),
    }
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": name},
        "spec": {
            "iterations": iterations,
            "parameterServers": {"replicas": 1},
            "workers": {"replicas": 1, "template": {"spec": {"containers": [container]}}},
        },
    }


if __name__ == "__main__":
    main()
