"""The Lease: of several operators one works, the others wait.

As in client-go, nobody compares clocks: a candidate takes the Lease over only after it has
itself seen it unchanged for the whole lease duration, and a holder that could not renew for
`RENEW_DEADLINE_SECONDS`, which is shorter, ends. Writes carry the resource version that was
read, so of two candidates one fails. The library's own election compares wall clocks and
gives up leadership by cancelling a task, which leaves writes in flight; here the process ends.
"""

import asyncio
import logging
import time
from datetime import UTC, datetime
from typing import Final

from harmony_operator import metrics
from harmony_operator.api_client import ApiClient, ApiError, Raw
from harmony_operator.observed import ObjectKey

LEASE_NAME: Final = "harmony-operator"
LEASE_SECONDS: Final = 15
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0

_logger = logging.getLogger(__name__)


class LeadershipLost(Exception):  # noqa: N818 - it happens to a healthy process
    """Another process may work now; this one must end at once."""


class Leadership:
    """The claim of this process to the Lease."""

    def __init__(self, client: ApiClient, namespace: str, identity: str) -> None:
        self._client = client
        self._key = ObjectKey(namespace, LEASE_NAME)
        self._identity = identity
        self._lease: Raw | None = None
        self._unchanged_since = time.monotonic()

    async def acquire(self) -> None:
        """Return once this process holds the Lease."""
        announced = False
        while not await self._try():
            if not announced and self._holder():
                _logger.info("waiting: %s holds the Lease", self._holder())
                announced = True
            await asyncio.sleep(RETRY_SECONDS)
        _logger.info("leading as %s", self._identity)
        metrics.LEADING.set(1)

    async def keep(self) -> None:
        """Renew the Lease. Raises LeadershipLost, and never returns."""
        renewed = time.monotonic()
        while True:
            await asyncio.sleep(RETRY_SECONDS)
            asked = time.monotonic()
            try:
                async with asyncio.timeout(renewed + RENEW_DEADLINE_SECONDS - asked):
                    held = await self._try()
            except TimeoutError:
                held = False
            if held:
                renewed = asked
            elif self._holder() not in (self._identity, "") or (
                time.monotonic() - renewed >= RENEW_DEADLINE_SECONDS
            ):
                metrics.LEADING.set(0)
                raise LeadershipLost(
                    f"the Lease was not renewed; its holder is {self._holder() or 'unknown'}"
                )

    async def release(self) -> None:
        """Give the Lease up, so that the next operator need not wait for its end."""
        if self._holder() == self._identity:
            await self._write({"holderIdentity": "", "leaseDurationSeconds": 1})

    def _holder(self) -> str:
        return ((self._lease or {}).get("spec") or {}).get("holderIdentity") or ""

    async def _try(self) -> bool:
        """Take or renew the Lease; whether it is held now."""
        try:
            if self._holder() != self._identity:
                await self._read()
                duration = (self._lease or {}).get("spec", {}).get("leaseDurationSeconds") or 0
                free = time.monotonic() - self._unchanged_since >= duration
                if self._holder() not in ("", self._identity) and not free:
                    return False
            return await self._write({"holderIdentity": self._identity})
        except ApiError as error:
            _logger.warning("the Lease cannot be written: %s", error)
            return False

    async def _read(self) -> None:
        try:
            found: Raw | None = await self._client.get("Lease", self._key)
        except ApiError as error:
            if error.status != 404:
                raise
            found = None
        if _version(found) != _version(self._lease):
            self._unchanged_since = time.monotonic()
        self._lease = found

    async def _write(self, wanted: Raw) -> bool:
        """Write the Lease as it was last read, with changes; whether nobody else wrote it."""
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        before = (self._lease or {}).get("spec") or {}
        spec = {**before, "leaseDurationSeconds": LEASE_SECONDS, **wanted, "renewTime": now}
        if before.get("holderIdentity") != wanted["holderIdentity"]:
            spec["acquireTime"] = now
            spec["leaseTransitions"] = before.get("leaseTransitions", -1) + 1
        try:
            if self._lease is None:
                self._lease = await self._client.create(
                    {
                        "apiVersion": "coordination.k8s.io/v1",
                        "kind": "Lease",
                        "metadata": {"namespace": self._key.namespace, "name": self._key.name},
                        "spec": spec,
                    }
                )
            else:
                version = _version(self._lease)
                self._lease = await self._client.patch(
                    "Lease",
                    self._key,
                    [
                        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
                        {"op": "add", "path": "/spec", "value": spec},
                    ],
                )
        except ApiError as error:
            if error.status not in (404, 409):
                raise
            await self._read()
            return False
        self._unchanged_since = time.monotonic()
        return True


def _version(lease: Raw | None) -> str:
    return lease["metadata"]["resourceVersion"] if lease else ""
