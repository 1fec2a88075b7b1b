"""Nodes that do not exist: a thread plays scheduler and kubelet for Harmony's pods.

Where only an API server runs, somebody must bind pods, run them and end them. What the real
ones do is done here as they do it: a pod that shall go gets its grace period's end, a worker
whose node plan says stop ends with 75. Programs do not run: a test says how a pod ends.
"""

import asyncio
import json
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import aiohttp

from cluster.api_server import ApiServer
from cluster.loop_thread import LoopThread

STOPPED = 75
"""Exit code of a worker that stopped at an iteration boundary."""

Raw = dict[str, Any]
Key = tuple[str, str]
"""Namespace and name of a pod."""


class StubNodes(LoopThread):
    """Ready nodes, on which every pod with Harmony's role label runs at once."""

    def __init__(
        self,
        server: ApiServer,
        names: Sequence[str],
        *,
        allocatable: Mapping[str, str] | None = None,
        selector: str = "harmony.dev/role",
    ) -> None:
        """`allocatable` is what each node offers besides the usual."""
        super().__init__()
        self.names = tuple(names)
        self.allocatable = {"cpu": "8", "memory": "32Gi", "pods": "500", **(allocatable or {})}
        self.starts: dict[Key, int] = defaultdict(int)
        """How many pods of each name were started."""
        self.first_seen_seconds: dict[Key, float] = {}
        """When the watch first brought a pod, by the monotonic clock."""
        self.holds: Callable[[Raw], bool] = lambda _: False
        """Pods for which it holds are neither bound nor run."""
        self.addresses: Callable[[Raw], str | None] = lambda _: None
        """The IP that a pod gets; None: it has none and cannot be asked."""
        self.refusals: Callable[[Raw], Raw | None] = lambda _: None
        """The status of a pod that is not run but reported so."""
        self._url, self._token = server.url, server.token
        self._certificate_authority = server.certificate_authority
        self._selector = selector
        self._pods: dict[Key, Raw] = {}
        self._touched: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watching: asyncio.Task[None] | None = None
        self._session: aiohttp.ClientSession | None = None

    def pods(self, namespace: str) -> dict[str, Raw]:
        """Return the pods of a namespace by name, as seen last."""
        return {name: pod for (where, name), pod in list(self._pods.items()) if where == namespace}

    def end(self, namespace: str, name: str, exit_code: int = 0, reason: str = "") -> None:
        """End a pod's main container."""
        self._do(self._end(self._pods[namespace, name], exit_code, reason))

    def offer(self, resources: Mapping[str, str]) -> None:
        """Have every node offer more."""
        self.allocatable |= resources
        for name in self.names:
            self._do(self._report_node(name, "True"))

    def set_ready(self, node: str, ready: bool) -> None:
        """Report a node as ready or as unknown, as after its loss."""
        self._do(self._report_node(node, "True" if ready else "Unknown"))

    def patch_status(self, namespace: str, name: str, status: Raw) -> None:
        """Merge into a pod's status."""
        self._do(self._patch_status(self._pods[namespace, name], status))

    async def _open(self) -> None:
        context = ssl.create_default_context(cafile=str(self._certificate_authority))
        self._session = aiohttp.ClientSession(
            base_url=self._url,
            headers={"Authorization": f"Bearer {self._token}"},
            connector=aiohttp.TCPConnector(ssl=context, limit=32),
        )
        for name in self.names:
            labels = {"kubernetes.io/hostname": name}
            node = {
                "kind": "Node",
                "apiVersion": "v1",
                "metadata": {"name": name, "labels": labels},
            }
            await self._request("POST", "/api/v1/nodes", node, accepted=(409,))
            await self._report_node(name, "True")
            await self._untaint(name)
        self._watching = asyncio.create_task(self._watch())

    async def _close(self) -> None:
        assert self._session is not None
        assert self._watching is not None
        self._watching.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(self._watching, *self._tasks, return_exceptions=True)
        for name in self.names:
            await self._request("DELETE", f"/api/v1/nodes/{name}", accepted=(404,))
        await self._session.close()

    async def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content_type: str = "application/json",
        accepted: Iterable[int] = (),
    ) -> Raw:
        assert self._session is not None
        while True:
            try:
                async with self._session.request(
                    method, path, json=body, headers={"Content-Type": content_type}
                ) as response:
                    answer: Raw = await response.json(content_type=None)
                    if response.status == 429 or response.status >= 500:
                        await asyncio.sleep(0.2)
                        continue
                    if response.status >= 400 and response.status not in accepted:
                        raise RuntimeError(f"{method} {path}: {answer}")
                    return answer
            except aiohttp.ClientError:
                await asyncio.sleep(0.2)

    async def _report_node(self, name: str, ready: str) -> None:
        status = {
            "capacity": self.allocatable,
            "allocatable": self.allocatable,
            "conditions": [{"type": "Ready", "status": ready, "reason": "Stub"}],
        }
        await self._request(
            "PATCH",
            f"/api/v1/nodes/{name}/status",
            {"status": status},
            content_type="application/merge-patch+json",
        )

    async def _untaint(self, name: str) -> None:
        """Take off what every new node gets until a controller finds it ready."""
        await self._request(
            "PATCH",
            f"/api/v1/nodes/{name}",
            {"spec": {"taints": None}},
            content_type="application/merge-patch+json",
        )

    async def _watch(self) -> None:
        while True:
            try:
                await self._watch_once()
            except (aiohttp.ClientError, TimeoutError, KeyError):
                await asyncio.sleep(0.2)

    async def _watch_once(self) -> None:
        assert self._session is not None
        query = {"labelSelector": self._selector}
        async with self._session.get("/api/v1/pods", params=query) as response:
            listed = await response.json()
        self._pods = {_key(pod): pod for pod in listed["items"]}
        for pod in self._pods.values():
            self._start_task(pod)
        query |= {"watch": "true", "resourceVersion": listed["metadata"]["resourceVersion"]}
        async with self._session.get(
            "/api/v1/pods", params=query, timeout=aiohttp.ClientTimeout(total=None)
        ) as response:
            rest = b""
            async for chunk in response.content.iter_any():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    self._hear(json.loads(line))

    def _hear(self, event: Raw) -> None:
        pod = event["object"]
        if event["type"] == "DELETED":
            self._pods.pop(_key(pod), None)
            return
        self._pods[_key(pod)] = pod
        self.first_seen_seconds.setdefault(_key(pod), time.monotonic())
        self._start_task(pod)

    def _start_task(self, pod: Raw) -> None:
        task = asyncio.create_task(self._play(pod))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _play(self, pod: Raw) -> None:
        """Do the next thing for a pod."""
        metadata, status = pod["metadata"], pod.get("status") or {}
        phase, node = status.get("phase"), pod["spec"].get("nodeName")
        if metadata.get("deletionTimestamp"):
            if node in self.names:
                await self._once(pod, "delete", self._remove)
        elif node is None:
            if not self.holds(pod) and (wanted := _required_node(pod)) in (*self.names, None):
                await self._once(pod, "bind", lambda one: self._bind(one, wanted or self.names[0]))
        elif node not in self.names or self.holds(pod):
            return
        elif phase == "Pending":
            refusal = self.refusals(pod)
            if refusal is None:
                await self._once(pod, "run", self._run)
            else:
                await self._once(pod, "refuse", lambda one: self._patch_status(one, refusal))
        elif phase == "Running" and _told_to_stop(pod):
            await self._once(pod, "stop", lambda one: self._end(one, STOPPED, ""))

    async def _once(self, pod: Raw, what: str, action: Callable[[Raw], Any]) -> None:
        """Do a thing for a pod unless it was done before."""
        uid = pod["metadata"]["uid"]
        if self._touched.get(uid) == what:
            return
        self._touched[uid] = what
        await action(pod)

    async def _bind(self, pod: Raw, node: str) -> None:
        target = {"apiVersion": "v1", "kind": "Node", "name": node}
        binding = {"apiVersion": "v1", "kind": "Binding", "target": target}
        binding["metadata"] = {"name": pod["metadata"]["name"]}
        await self._request("POST", f"{_path(pod)}/binding", binding, accepted=(404, 409))

    async def _run(self, pod: Raw) -> None:
        self.starts[_key(pod)] += 1
        running = {"running": {"startedAt": _now()}}
        await self._patch_status(
            pod,
            {
                "phase": "Running",
                "startTime": _now(),
                **({} if (ip := self.addresses(pod)) is None else {"podIP": ip}),
                "conditions": _conditions("True"),
                "containerStatuses": _containers(pod, "containers", running, ready=True),
                "initContainerStatuses": _containers(pod, "initContainers", running, ready=True),
            },
        )

    async def _end(self, pod: Raw, exit_code: int, reason: str) -> None:
        ended = {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            "startedAt": _now(),
            "finishedAt": _now(),
        }
        terminated = {"terminated": ended}
        await self._patch_status(
            pod,
            {
                "phase": "Succeeded" if exit_code == 0 else "Failed",
                "conditions": _conditions("False"),
                "containerStatuses": _containers(pod, "containers", terminated, ready=False),
                "initContainerStatuses": _containers(
                    pod, "initContainers", {"terminated": {**ended, "exitCode": 137}}, ready=False
                ),
            },
        )

    async def _patch_status(self, pod: Raw, status: Raw) -> None:
        await self._request(
            "PATCH",
            f"{_path(pod)}/status",
            {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status},
            content_type="application/merge-patch+json",
            accepted=(404, 409),
        )

    async def _remove(self, pod: Raw) -> None:
        options = {
            "gracePeriodSeconds": 0,
            "preconditions": {"uid": pod["metadata"]["uid"]},
        }
        await self._request("DELETE", _path(pod), options, accepted=(404, 409))


def _key(pod: Raw) -> Key:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _path(pod: Raw) -> str:
    namespace, name = _key(pod)
    return f"/api/v1/namespaces/{namespace}/pods/{name}"


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _required_node(pod: Raw) -> str | None:
    """Return the node that the pod's affinity names, if it names one."""
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for match in term.get("matchFields") or ():
            return str(match["values"][0])
    return None


def _told_to_stop(pod: Raw) -> bool:
    plan = (pod["metadata"].get("annotations") or {}).get("harmony.dev/node-plan")
    return bool(plan and json.loads(plan).get("stop"))


def _conditions(ready: str) -> list[Raw]:
    types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    changed = {"lastTransitionTime": _now()}
    return [
        {"type": one, "status": ready if "Ready" in one else "True", **changed} for one in types
    ]


def _containers(pod: Raw, field: str, state: Raw, *, ready: bool) -> list[Raw]:
    return [
        {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": ready,
            "started": ready,
            "restartCount": 0,
            "state": state,
        }
        for container in pod["spec"].get(field) or ()
    ]
