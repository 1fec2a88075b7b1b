"""Requests to the API server, as plain dicts.

The official client's models cost more to fill than a request takes, and drop fields that they
do not know; so objects go out as builders made them and come back as they were sent. Every
request is counted by verb and kind. No answer is an `ApiError` like any other, with status 0.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, NamedTuple

import aiohttp
import kopf

from harmony_operator import metrics
from harmony_operator.observed import ObjectKey

Raw = dict[str, Any]
Login = Callable[[], kopf.ConnectionInfo]
Verb = Literal["get", "list", "create", "patch", "delete"]

_TIMEOUT: Final = aiohttp.ClientTimeout(total=30, sock_connect=10)


class Resource(NamedTuple):
    """Where the objects of a kind are served."""

    group_version: str
    plural: str
    namespaced: bool = True

    def path(self, namespace: str, name: str = "", subresource: str = "") -> str:
        """Return the path of a collection, an object or one of its subresources."""
        root = (
            f"/api/{self.group_version}"
            if "/" not in self.group_version
            else (f"/apis/{self.group_version}")
        )
        place = f"/namespaces/{namespace}" if self.namespaced and namespace else ""
        tail = "".join(f"/{part}" for part in (name, subresource) if part)
        return f"{root}{place}/{self.plural}{tail}"


RESOURCES: Final[Mapping[str, Resource]] = {
    "HarmonyJob": Resource("harmony.dev/v1alpha1", "harmonyjobs"),
    "HarmonyGroup": Resource("harmony.dev/v1alpha1", "harmonygroups"),
    "Pod": Resource("v1", "pods"),
    "Service": Resource("v1", "services"),
    "Event": Resource("v1", "events"),
    "Node": Resource("v1", "nodes", namespaced=False),
    "PersistentVolumeClaim": Resource("v1", "persistentvolumeclaims"),
    "Lease": Resource("coordination.k8s.io/v1", "leases"),
    "ResourceClaim": Resource("resource.k8s.io/v1", "resourceclaims"),
    "ResourceSlice": Resource("resource.k8s.io/v1", "resourceslices", namespaced=False),
    "DeviceClass": Resource("resource.k8s.io/v1", "deviceclasses", namespaced=False),
    "PriorityClass": Resource("scheduling.k8s.io/v1", "priorityclasses", namespaced=False),
}


class ApiError(Exception):
    """A request that was refused or got no answer."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        """HTTP status; 0: there was no answer."""
        self.reason = reason
        """As the API server says it: Forbidden, Invalid, AlreadyExists..."""
        self.message = message

    @property
    def outage(self) -> bool:
        """Whether the API server is to blame and the same request may succeed later."""
        return self.status in {0, 429} or self.status >= 500


class ApiClient:
    """A session with the API server, which logs in again when its token has expired."""

    def __init__(self, login: Login) -> None:
        """`login` finds the credentials; it is called again after a 401, for a new token."""
        self._login = login
        self._info = login()
        self._session: aiohttp.ClientSession | None = None
        self.outage_seen = asyncio.Event()
        """Set by every request that the API server could not answer; cleared by who cares."""

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    async def get(self, kind: str, key: ObjectKey) -> Raw:
        """Return an object. Raises ApiError."""
        return await self._request("get", kind, RESOURCES[kind].path(*key))

    async def list_objects(self, kind: str, namespace: str = "", **query: str) -> Raw:
        """Return a list of objects. Raises ApiError."""
        return await self._request("list", kind, RESOURCES[kind].path(namespace), query=query)

    async def list_metadata(self, kind: str, **query: str) -> Raw:
        """Return a list of objects of which only metadata is sent. Raises ApiError."""
        accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
        path = RESOURCES[kind].path("")
        return await self._request("list", kind, path, query=query, accept=accept)

    async def create(self, manifest: Mapping[str, Any], *, dry_run: bool = False) -> Raw:
        """Create an object and return it; a dry run keeps nothing of it. Raises ApiError."""
        kind, namespace = manifest["kind"], manifest["metadata"].get("namespace", "")
        path, query = RESOURCES[kind].path(namespace), {"dryRun": "All"} if dry_run else None
        return await self._request("create", kind, path, body=manifest, query=query)

    async def merge(
        self, kind: str, key: ObjectKey, patch: Mapping[str, Any], *, subresource: str = ""
    ) -> Raw:
        """Apply a JSON merge patch and return the object. Raises ApiError."""
        path = RESOURCES[kind].path(*key, subresource)
        return await self._request(
            "patch", kind, path, body=patch, content_type="application/merge-patch+json"
        )

    async def patch(
        self, kind: str, key: ObjectKey, operations: list[Raw], *, subresource: str = ""
    ) -> Raw:
        """Apply a JSON patch and return the object. Raises ApiError."""
        path = RESOURCES[kind].path(*key, subresource)
        return await self._request(
            "patch", kind, path, body=operations, content_type="application/json-patch+json"
        )

    async def delete(self, kind: str, key: ObjectKey, options: Mapping[str, Any]) -> Raw:
        """Delete an object; return it as it waits to go, or a Status. Raises ApiError."""
        return await self._request("delete", kind, RESOURCES[kind].path(*key), body=options)

    async def served(self, group_version: str) -> frozenset[str]:
        """Return the resources that a version of a group has; none if it is not there."""
        try:
            found = await self._request("get", "APIResourceList", f"/apis/{group_version}")
        except ApiError as error:
            if error.status == 404:
                return frozenset()
            raise
        return frozenset(f"{group_version} {one['name']}" for one in found["resources"])

    async def _request(
        self,
        verb: Verb,
        kind: str,
        path: str,
        *,
        body: object = None,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Raw:
        method = {"create": "POST", "patch": "PATCH", "delete": "DELETE"}.get(verb, "GET")
        headers = {"Accept": accept, "Content-Type": content_type}

        async def send() -> Raw:
            session = await self._open()
            try:
                async with session.request(
                    method,
                    self._info.server.rstrip("/") + path,
                    json=body,
                    params=query,
                    headers={**self._info.as_http_headers(), **headers},
                ) as response:
                    answer = await _json(response)
                    if response.status >= 400:
                        raise ApiError(
                            response.status,
                            str(answer.get("reason") or response.reason or ""),
                            str(answer.get("message") or ""),
                        )
                    return answer
            except (aiohttp.ClientError, TimeoutError, OSError) as error:
                raise ApiError(0, "NoAnswer", str(error) or type(error).__name__) from error

        code, used = "200", self._info
        try:
            try:
                return await send()
            except ApiError as error:
                if error.status != 401:
                    raise
                self._log_in_again(used)
                return await send()
        except ApiError as error:
            code = str(error.status)
            if error.outage:
                self.outage_seen.set()
            raise
        finally:
            metrics.API_REQUESTS.labels(verb=verb, kind=kind, code=code).inc()

    async def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            tls = self._info.as_ssl_context() if self._info.server.startswith("https") else False
            self._session = aiohttp.ClientSession(
                headers={"User-Agent": "harmony-operator"},
                timeout=_TIMEOUT,
                connector=aiohttp.TCPConnector(ssl=tls, limit=64),
            )
        return self._session

    def _log_in_again(self, refused: kopf.ConnectionInfo) -> None:
        """Log in, unless another request that was refused has done so meanwhile.

        The connections stay, for others are using them: it is the token that expires.
        """
        if self._info is refused:
            self._info = self._login()


async def _json(response: aiohttp.ClientResponse) -> Raw:
    """Return the answer's object; a proxy's error page becomes an empty one."""
    try:
        answer = await response.json(content_type=None)
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}
