"""Jobs on a real cluster, as their user sees them: applied, watched, their logs read."""

import json
import subprocess
import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from cluster import harmony
from cluster.waiting import until
from harmony_api.sidecar_state import TurnPage, TurnRecord

Kubectl = Callable[..., str]
Manifest = dict[str, Any]

EXAMPLES = Path(__file__).parents[2] / "worker_image" / "examples"
SIDECAR_PORT = 9401
PATIENCE_SECONDS = 240.0
HELD = "harmony.dev/held-by-a-test"
LONG = 10_000_000
"""Iterations that no test waits for."""
STOPPED = 75
"""Exit code of a worker that stopped at an iteration boundary."""


def example(name: str, *, iterations: int, **workers: Any) -> Manifest:
    """One of the examples' own manifests, whose worker tells its losses in its log.

    One thread computes, as in a local run with one core for compute.
    """
    manifest: Manifest = yaml.safe_load((EXAMPLES / f"{name}.yaml").read_text())
    spec = manifest["spec"]
    spec["iterations"] = iterations
    spec["workers"] |= workers
    spec["sharing"] = {"deviceMemory": {"footprint": "8Gi"}}
    [container] = spec["workers"]["template"]["spec"]["containers"]
    container.setdefault("env", []).append({"name": "OMP_NUM_THREADS", "value": "1"})
    return manifest


def training(name: str, iterations: int = LONG, **spec: object) -> Manifest:
    """A light job on a CPU slot, which sharing may slow down as much as it likes."""
    job = telling_losses(named(example("digits_mlr", iterations=iterations), name))
    job["spec"] |= {"sharing": {"maxSlowdownPercent": 10_000}, **spec}
    return job


def telling_losses(manifest: Manifest) -> Manifest:
    """The same job, whose workers write each exact loss into their logs."""
    copy = copy_of(manifest)
    [container] = copy["spec"]["workers"]["template"]["spec"]["containers"]
    container["env"].append({"name": "HARMONY_LOSS_LOG", "value": "/dev/stdout"})
    return copy


def with_examples_from_here(manifest: Manifest) -> Manifest:
    """The same job for a local run, which has the examples where the project has them."""
    copy = copy_of(manifest)
    [container] = copy["spec"]["workers"]["template"]["spec"]["containers"]
    container["env"].insert(0, {"name": "HARMONY_EXAMPLES", "value": str(EXAMPLES)})
    return copy


def copy_of(manifest: Manifest) -> Manifest:
    """A copy that shares nothing with it."""
    copy: Manifest = json.loads(json.dumps(manifest))
    return copy


def named(manifest: Manifest, name: str) -> Manifest:
    """The same job under another name."""
    return {**manifest, "metadata": {**manifest["metadata"], "name": name}}


@dataclass
class Record:
    """What workers and their sidecars told, by job and index of the worker."""

    turns: dict[tuple[str, int], list[TurnRecord]] = field(
        default_factory=lambda: defaultdict(list)
    )
    losses: dict[tuple[str, int], dict[int, str]] = field(default_factory=lambda: defaultdict(dict))

    def all_turns(self) -> list[TurnRecord]:
        """The turns of all workers."""
        return [turn for turns in self.turns.values() for turn in turns]


@dataclass
class Jobs:
    """The jobs of one namespace."""

    namespace: str
    cluster_kubectl: Kubectl

    def kubectl(self, *arguments: str, input: str | None = None) -> str:  # noqa: A002
        """Run kubectl in the namespace."""
        return self.cluster_kubectl("--namespace", self.namespace, *arguments, input=input)

    def apply(self, *manifests: Manifest) -> None:
        """`kubectl apply` them, in one go."""
        documents = {"apiVersion": "v1", "kind": "List", "items": list(manifests)}
        self.kubectl("apply", "--filename=-", input=json.dumps(documents))

    def get(self, kind: str, name: str) -> Manifest:
        """One object."""
        found: Manifest = json.loads(self.kubectl("get", kind, name, "--output=json"))
        return found

    def all(self, kind: str, selector: str = "") -> list[Manifest]:
        """All objects of a kind, or those that a label selector picks."""
        options = ("--selector", selector) if selector else ()
        items: list[Manifest] = json.loads(self.kubectl("get", kind, *options, "--output=json"))[
            "items"
        ]
        return items

    def pods(self, job: str, role: str = "worker") -> list[Manifest]:
        """The job's pods of one role, by name."""
        return self.all("pods", f"harmony.dev/job-name={job},harmony.dev/role={role}")

    def status(self, job: str) -> Mapping[str, Any]:
        """The job's status; empty before it has one."""
        status: Mapping[str, Any] = self.get("harmonyjob", job).get("status", {})
        return status

    def condition(self, job: str, kind: str) -> Mapping[str, str]:
        """A condition of the job; empty while there is none."""
        conditions = self.status(job).get("conditions", [])
        return next((one for one in conditions if one["type"] == kind), {})

    def events(self, about: str) -> list[Manifest]:
        """The events about an object."""
        return [one for one in self.all("events") if one["involvedObject"]["name"] == about]

    def wait(self, what: str, look: Callable[[], Any], seconds: float = PATIENCE_SECONDS) -> Any:
        """Wait for a condition; everything that may explain its absence is in the error."""
        return until(look, seconds=seconds, what=what, every_seconds=0.3, details=self.story)

    def wait_for(self, job: str, condition: str, status: str = "True", reason: str = "") -> None:
        """Wait until a condition of the job has a status, and a reason where one is given."""

        def seen() -> bool:
            found = self.condition(job, condition)
            return found.get("status") == status and reason in ("", found["reason"])

        self.wait(f"{job} is {condition}={status} {reason}", seen)

    def wait_for_iteration(self, job: str, iteration: int, worker: int = 0) -> None:
        """Wait until a worker has trained that far, by what it told in its log."""
        self.wait(
            f"{job} reaches iteration {iteration}",
            lambda: max(self.losses(job, worker), default=-1) >= iteration,
        )

    def losses(self, job: str, worker: int = 0) -> dict[int, str]:
        """Exact losses by iteration as the worker's log tells them, of a replayed one the last."""
        return dict(self.losses_in_order(job, worker))

    def losses_in_order(self, job: str, worker: int = 0) -> list[tuple[int, str]]:
        """Iterations with their losses as the worker's log tells them; empty before it has one."""
        try:
            log = self.kubectl("logs", f"{job}-worker-{worker}", "--container=worker")
        except subprocess.CalledProcessError:
            return []
        return losses_in(log)

    def suspend(self, job: str, suspended: bool) -> None:
        """Suspend a job, or resume it."""
        patch = json.dumps({"spec": {"suspend": suspended}})
        self.kubectl("patch", "hj", job, "--type=merge", f"--patch={patch}")

    def devices_seen(self, pod: str) -> list[str]:
        """What a worker's environment says of its GPUs, as a driver or runtime sets it."""
        variables = self.kubectl("exec", pod, "--container=worker", "--", "env").splitlines()
        names = ("GPU_DEVICE_", "NVIDIA_VISIBLE_DEVICES=")
        return sorted(one for one in variables if one.startswith(names))

    def node_plan(self, pod: str) -> Manifest:
        """The plan that a worker's pod carries now."""
        plan: Manifest = json.loads(
            self.get("pod", pod)["metadata"]["annotations"]["harmony.dev/node-plan"]
        )
        return plan

    def hold(self, pod: str) -> None:
        """Keep a pod and its logs to look at, also when it is deleted."""
        self._finalizers(pod, [HELD])

    def let_go(self, pod: str) -> None:
        """Keep it no longer."""
        self._finalizers(pod, [])

    def last_iteration(self, job: str, worker: int = 0) -> int:
        """Wait until a worker that is held has stopped at an iteration boundary, and let it go."""
        pod = f"{job}-worker-{worker}"
        ended = self.wait(f"{pod} ends", lambda: exit_code(self.get("pod", pod), "worker"))
        assert ended == STOPPED
        last = max(self.losses(job, worker))
        self.let_go(pod)
        return last

    def _finalizers(self, pod: str, finalizers: list[str]) -> None:
        patch = json.dumps({"metadata": {"finalizers": finalizers}})
        self.kubectl("patch", "pod", pod, "--type=merge", f"--patch={patch}")

    def ask_sidecar(self, pod: str, path: str) -> str:
        """What a pod's sidecar answers over HTTP."""
        where = f"/api/v1/namespaces/{self.namespace}/pods/{pod}:{SIDECAR_PORT}/proxy{path}"
        return self.cluster_kubectl("get", "--raw", where)

    def story(self) -> str:
        """Jobs, groups, pods and events, and the end of the operator's log."""
        parts = [
            self.kubectl("get", "hj,hg,pods,resourceclaims", "--output=wide"),
            self.kubectl("get", "hj", "--output=jsonpath={.items[*].status.conditions}"),
            self.kubectl("get", "events", "--sort-by=.lastTimestamp"),
            self.cluster_kubectl(
                "--namespace", harmony.NAMESPACE, "logs", "deployment/harmony-operator", "--tail=60"
            ),
        ]
        return "\n".join(parts)

    @contextmanager
    def recorded(self, *jobs: str) -> Iterator["Record"]:
        """Collect what the jobs' workers and sidecars tell while inside, whatever moves them."""
        record = Record()
        over = threading.Event()

        def collect() -> None:
            following: dict[str, int] = {}
            while not over.wait(0.5):
                for job in jobs:
                    for pod in self.pods(job):
                        name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
                        worker = job, int(pod["metadata"]["labels"]["harmony.dev/index"])
                        try:
                            answer = self.ask_sidecar(
                                name, f"/events?after={following.get(uid, 0)}"
                            )
                            log = self.kubectl("logs", name, "--container=worker")
                        except subprocess.CalledProcessError:
                            continue  # it does not run yet, or not any more
                        page = TurnPage.model_validate_json(answer)
                        following[uid] = page.next_sequence
                        record.turns[worker] += page.turns
                        record.losses[worker].update(losses_in(log))

        collector = threading.Thread(target=collect)
        collector.start()
        try:
            yield record
        finally:
            over.set()
            collector.join()


def exit_code(pod: Manifest, container: str) -> int | None:
    """The exit code of a container; None while it runs."""
    states = {one["name"]: one["state"] for one in pod["status"].get("containerStatuses", [])}
    code: int | None = states.get(container, {}).get("terminated", {}).get("exitCode")
    return code


def losses_in(log: str) -> list[tuple[int, str]]:
    """Iterations with their exact losses, in the order in which a worker's log tells them."""
    records = (json.loads(line) for line in log.splitlines() if line.startswith('{"iteration"'))
    return [(record["iteration"], record["hex"]) for record in records]


def uids(pods: list[Manifest]) -> set[str]:
    """Which pods they are: one that was made anew has another uid."""
    return {pod["metadata"]["uid"] for pod in pods}


def slot_of(pod: Manifest) -> str:
    """The name of the slot that a worker pod was made for."""
    slot: str = pod["metadata"]["annotations"]["harmony.dev/slot"]
    return slot
