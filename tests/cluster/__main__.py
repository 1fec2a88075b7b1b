"""A test cluster to work with: `PYTHONPATH=tests python -m cluster up|down|status|build`.

The cluster belongs to a process in the background, which stops it cleanly when it is told to end.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from cluster import harmony, provider
from cluster.binaries import CACHE, NotPossibleError, path
from cluster.waiting import until

STATE = CACHE / "up.json"
LOG = CACHE / "up.log"
START_SECONDS = 300
STOP_SECONDS = 120


def up(choice: str) -> None:
    """Start a cluster with Harmony on it, unless one runs, and tell how to use it."""
    if _owner() is None:
        provider.prepare(choice)
        print("starting the cluster ...")
        with LOG.open("w") as log:
            holder = subprocess.Popen(
                [sys.executable, "-m", "cluster", "hold", "--cluster", choice],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        until(
            lambda: STATE.exists() or holder.poll() is not None,
            seconds=START_SECONDS,
            what="the cluster is up",
        )
    status()


def hold(choice: str) -> None:
    """Run a cluster until this process is told to end."""
    signals = {signal.SIGTERM, signal.SIGINT}
    signal.pthread_sigmask(signal.SIG_BLOCK, signals)
    with provider.start(choice) as cluster:
        harmony.install(cluster.kubeconfig)
        state = {"pid": os.getpid(), "kubeconfig": str(cluster.kubeconfig)}
        STATE.write_text(json.dumps(state))
        signal.sigwait(signals)
    STATE.unlink()


def down() -> None:
    """Stop the cluster that `up` started."""
    if (owner := _owner()) is None:
        print("no cluster is up")
        return
    os.kill(owner, signal.SIGTERM)
    until(lambda: _owner() is None, seconds=STOP_SECONDS, what="the cluster is down")


def status() -> None:
    """Tell whether a cluster is up, and how to use it."""
    if _owner() is None:
        sys.exit(f"no cluster is up; what was said last is in {LOG}")
    kubeconfig = json.loads(STATE.read_text())["kubeconfig"]
    subprocess.run([path("kubectl"), "--kubeconfig", kubeconfig, "get", "nodes"], check=True)
    print(f"export KUBECONFIG={kubeconfig} PATH={path('kubectl').parent}:$PATH")


def _owner() -> int | None:
    """Return the process that a running cluster belongs to."""
    if not STATE.exists():
        return None
    owner = int(json.loads(STATE.read_text())["pid"])
    command = Path(f"/proc/{owner}/cmdline")
    return owner if command.exists() and b"hold" in command.read_bytes() else None


def main() -> None:
    """Run the command of the command line."""
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__)
    parser.add_argument("command", choices=["up", "down", "status", "build", "hold"])
    parser.add_argument("--cluster", default="native", help="native (default, needs root) or kind")
    arguments = parser.parse_args()
    try:
        match arguments.command:
            case "up":
                up(arguments.cluster)
            case "hold":
                hold(arguments.cluster)
            case "down":
                down()
            case "status":
                status()
            case "build":
                provider.prepare(arguments.cluster)
    except NotPossibleError as reason:
        sys.exit(str(reason))


if __name__ == "__main__":
    main()
