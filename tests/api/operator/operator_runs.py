"""Runs the operator as its container does, and asks the API server about the outcome."""

import contextlib
import json
import os
import random
import signal
import socket
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cluster.api_server import ApiServer
from cluster.processes import Process
from cluster.waiting import until

Raw = dict[str, Any]
SECONDS = 60.0
"""How long a test waits for what should take a moment; the machine may be busy."""


class OperatorProcess:
    """`python -m harmony_operator`, which may be killed and started again under its name."""

    def __init__(
        self, kubeconfig: Path, namespace: str, folder: Path, name: str, **settings: str
    ) -> None:
        """`settings` are variables without their prefix, as in `GPU_BINDING="reservation"`."""
        self.name = name
        self.log = folder / f"{name}.log"
        self.metrics_port, self._probe_port = free_port(), free_port()
        self._environment = {
            "KUBECONFIG": str(kubeconfig),
            "POD_NAME": name,
            "HARMONY_OPERATOR_SYSTEM_NAMESPACE": namespace,
            "HARMONY_OPERATOR_SIDECAR_IMAGE": "harmony/sidecar",
            "HARMONY_OPERATOR_SERVER_IMAGE": "harmony/worker",
            "HARMONY_OPERATOR_GPU_BINDING": "none",
            "HARMONY_OPERATOR_PROBE_PORT": str(self._probe_port),
            "HARMONY_OPERATOR_METRICS_PORT": str(self.metrics_port),
            **{f"HARMONY_OPERATOR_{key}": value for key, value in settings.items()},
        }
        self._process: Process | None = None

    def start(self) -> None:
        """Start it; it is not awaited."""
        variables = [f"{name}={value}" for name, value in self._environment.items()]
        command = ["env", *variables, sys.executable, "-m", "harmony_operator"]
        self._process = Process(self.name, command, self.log)

    def wait_leading(self) -> None:
        """Wait until this process leads (said since the log began)."""
        until(
            lambda: f"leading as {self.name}" in self.log.read_text(),
            seconds=SECONDS,
            what=f"{self.name} leads",
            details=self.log.read_text,
        )

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process is not None and self._process.alive

    @property
    def pid(self) -> int:
        """The process's id."""
        assert self._process is not None
        return self._process.pid

    def stop(self) -> None:
        """Ask it to end."""
        if self._process is not None:
            self._process.stop()

    def kill(self) -> None:
        """Kill it; may be called by any thread."""
        os.kill(self.pid, signal.SIGKILL)

    def wait_end(self) -> None:
        """Wait until the process has ended."""
        until(lambda: not self.alive, seconds=SECONDS, what=f"{self.name} ends")


class Cluster:
    """Short questions and wishes to the API server about one namespace."""

    def __init__(self, server: ApiServer, namespace: str) -> None:
        self.server = server
        self.namespace = namespace

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl in the namespace."""
        return self.server.kubectl("--namespace", self.namespace, *arguments, input=input)

    def apply(self, *manifests: Raw) -> None:
        """Create or change objects."""
        document = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--filename", "-", input=json.dumps(document))

    def patch(self, resource: str, patch: Raw) -> None:
        """Merge into an object, named as `harmonyjob/mlr`."""
        self.kubectl("patch", resource, "--type=merge", "--patch", json.dumps(patch))

    def objects(self, resources: str) -> list[Raw]:
        """Return the namespace's objects of these kinds."""
        found: list[Raw] = json.loads(self.kubectl("get", resources, "--output=json"))["items"]
        return found

    def names(self, resources: str) -> set[str]:
        """Return their names."""
        return {one["metadata"]["name"] for one in self.objects(resources)}

    def job(self, name: str) -> Raw:
        """Return a HarmonyJob."""
        found: Raw = json.loads(self.kubectl("get", "harmonyjob", name, "--output=json"))
        return found

    def events(self, name: str) -> list[Raw]:
        """Return the events about a job."""
        return [one for one in self.objects("events") if one["involvedObject"]["name"] == name]

    def conditions(self, name: str) -> dict[str, Raw]:
        """Return a job's conditions by type."""
        status = self.job(name).get("status") or {}
        return {one["type"]: one for one in status.get("conditions") or ()}

    def wait_condition(
        self, name: str, kind: str, *, status: str = "True", reason: str | None = None
    ) -> Raw:
        """Wait for a condition of a job and return it."""

        def holds() -> Raw | None:
            condition = self.conditions(name).get(kind)
            if condition is None or condition["status"] != status:
                return None
            return condition if reason in (None, condition["reason"]) else None

        found = until(
            holds,
            seconds=SECONDS,
            what=f"{name}: {kind} is {status} {reason or ''}",
            every_seconds=0.2,
            details=lambda: json.dumps(self.job(name).get("status"), indent=1),
        )
        assert found is not None
        return found

    def wait(self, what: str, condition: Callable[[], object]) -> None:
        """Wait until the condition holds."""
        until(
            condition,
            seconds=SECONDS,
            what=what,
            every_seconds=0.2,
            details=lambda: self.kubectl("get", "hj,hg,pods,services", "--output=wide"),
        )


def job(
    name: str = "mlr",
    *,
    workers: int = 2,
    servers: int = 1,
    template: Raw | None = None,
    **spec: Any,
) -> Raw:
    """A job whose profile is given; `template` is its workers'."""
    template = template or {"spec": {"containers": [{"name": "worker", "image": "train"}]}}
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"name": name},
        "spec": {
            "parameterServers": {"replicas": servers},
            "profile": {
                "computeMilliseconds": 100,
                "pullMilliseconds": 40,
                "pushMilliseconds": 40,
            },
            **spec,
            "workers": {"replicas": workers, "template": template},
        },
    }


def free_port() -> int:
    """Return a port that was free a moment ago, and that no outgoing connection takes."""
    while True:
        port = random.randrange(20_000, 30_000)
        with socket.socket() as listener, contextlib.suppress(OSError):
            listener.bind(("", port))
            return port
