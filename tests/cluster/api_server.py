"""One kube-apiserver, which tests may stop, kill and start again at the same address."""

import json
import ssl
import subprocess
from collections.abc import Iterable, Sequence
from functools import partial
from http.client import HTTPException
from pathlib import Path
from urllib.request import Request, urlopen

from cluster import binaries
from cluster.processes import Process
from cluster.waiting import until

READY_SECONDS = 60.0
ANSWER_SECONDS = 2.0
# It would wait a minute for the watches of its clients to end.
GRACE_SECONDS = 2.0


class ApiServer:
    """A kube-apiserver and an administrator's way to it.

    `url`, `certificate_authority` (a PEM file) and `token` are what a client needs; `kubeconfig`
    holds all three.
    """

    def __init__(
        self,
        command: Sequence[str | Path],
        *,
        log: Path,
        url: str,
        kubeconfig: Path,
        certificate_authority: Path,
        token: str,
    ) -> None:
        self.url = url
        self.kubeconfig = kubeconfig
        self.certificate_authority = certificate_authority
        self.token = token
        self._command = command
        self._log = log
        self._process: Process | None = None

    def start(self) -> None:
        """Start it unless it runs, and wait until it is ready."""
        if self._process is None or not self._process.alive:
            self._process = Process("kube-apiserver", self._command, self._log)
        process = self._process
        until(
            lambda: self.ready() or not process.alive,
            seconds=READY_SECONDS,
            what="the API server is ready",
            details=process.log_tail,
        )
        if not process.alive:
            raise RuntimeError(f"the API server ended\n{process.log_tail()}")

    def stop(self) -> None:
        """Ask it to end, and wait until it has."""
        if self._process is not None:
            self._process.stop(GRACE_SECONDS)

    def kill(self) -> None:
        """End it at once, as a crash would."""
        if self._process is not None:
            self._process.kill()

    def ready(self) -> bool:
        """Whether it answers that it is ready."""
        trusted = ssl.create_default_context(cafile=self.certificate_authority)
        asked = Request(f"{self.url}/readyz", headers={"Authorization": f"Bearer {self.token}"})
        try:
            with urlopen(asked, timeout=ANSWER_SECONDS, context=trusted):
                return True
        except (OSError, HTTPException):
            return False

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl as an administrator and return what it printed.

        Raises `subprocess.CalledProcessError` with kubectl's own words as a note.
        """
        return kubectl(self.kubeconfig, *arguments, input=input)

    def define(self, definitions: Iterable[Path]) -> None:
        """Make custom resources known, and wait until they are served."""
        for definition in definitions:
            self.kubectl("apply", "--server-side", "--filename", str(definition))
            until(
                partial(self._serves, definition),
                seconds=READY_SECONDS,
                what=f"{definition.name} is served",
            )

    def _serves(self, definition: Path) -> bool:
        found = json.loads(self.kubectl("get", "--filename", str(definition), "--output=json"))
        conditions = found["status"].get("conditions") or ()  # null while it is young
        return any(one["type"] == "Established" and one["status"] == "True" for one in conditions)


def kubectl(kubeconfig: Path, *arguments: str, input: str | None = None) -> str:  # noqa: A002
    """Run kubectl with `kubeconfig` and return what it printed; see `ApiServer.kubectl`."""
    # A cache of its own: another server at this address had other resources.
    cache = kubeconfig.parent / "kubectl-cache"
    done = subprocess.run(
        [
            *(binaries.path("kubectl"), "--kubeconfig", kubeconfig, "--cache-dir", cache),
            *arguments,
        ],
        input=input,
        capture_output=True,
        text=True,
    )
    try:
        done.check_returncode()
    except subprocess.CalledProcessError as error:
        error.add_note(done.stderr)
        raise
    return done.stdout
