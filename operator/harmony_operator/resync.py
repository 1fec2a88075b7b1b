"""Compares the mirror with lists of what exists: before the first decision, and now and then.

A decision on half a cluster would be wrong (a group not seen yet looks like a job without a
place), so nothing is decided before everything that exists has been seen. And kopf, which
lists again when a watch was broken for long, does not tell what disappeared meanwhile; so
after an outage, and every `PERIOD_SECONDS`, what no list shows any more is forgotten. Lists
are of metadata only.
"""

import asyncio
import logging
from typing import Final

from harmony_operator import watching
from harmony_operator.api_client import ApiClient, ApiError
from harmony_operator.mirror import Mirror
from harmony_operator.mirrored import MirroredKind
from harmony_operator.observed import ObjectKey

PERIOD_SECONDS: Final = 300.0
_PATIENCE_SECONDS: Final = 5.0
"""After a list the watches have that long to bring what is in it; then it is listed again."""
_POLL_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 2.0

_logger = logging.getLogger(__name__)

Missing = list[tuple[MirroredKind, ObjectKey, str]]
"""Kind, key and uid of objects that exist and were not seen yet."""


async def first_sync(client: ApiClient, mirror: Mirror) -> None:
    """Return once everything that exists has been seen."""
    while True:
        try:
            missing = await compare(client, mirror)
        except ApiError as error:
            _logger.warning("waiting for the API server: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        deadline = asyncio.get_running_loop().time() + _PATIENCE_SECONDS
        while missing and asyncio.get_running_loop().time() < deadline:
            await asyncio.sleep(_POLL_SECONDS)
            missing = [one for one in missing if not mirror.knows(*one)]
        if not missing:
            return
        kind, key, _ = missing[0]
        _logger.info("%d objects were not seen yet, such as %s %s", len(missing), kind, key)


async def keep_in_sync(client: ApiClient, mirror: Mirror) -> None:
    """Forget what is gone, after each outage and every `PERIOD_SECONDS`; never returns."""
    while True:
        try:
            async with asyncio.timeout(PERIOD_SECONDS):
                await client.outage_seen.wait()
        except TimeoutError:
            pass
        try:
            client.outage_seen.clear()
            await compare(client, mirror)
        except ApiError:
            await asyncio.sleep(_RETRY_SECONDS)


async def compare(client: ApiClient, mirror: Mirror) -> Missing:
    """Forget what is gone and return what was not seen yet. Raises ApiError."""
    missing: Missing = []
    for kind in watching.KINDS:
        selector = watching.SELECTORS.get(kind)
        try:
            found = await client.list_metadata(
                kind, **({"labelSelector": selector} if selector else {})
            )
        except ApiError as error:
            if error.status != 404:
                raise
            continue  # the cluster does not serve this kind
        listed = {
            ObjectKey(one["metadata"].get("namespace") or "", one["metadata"]["name"]): one[
                "metadata"
            ]["uid"]
            for one in found.get("items") or ()
        }
        version = int(found["metadata"]["resourceVersion"])
        for key, (uid, seen) in mirror.known(kind).items():
            if seen <= version and listed.get(key) != uid:
                _logger.info("%s %s is gone", kind, key)
                mirror.forget(kind, key, uid)
        missing += [
            (kind, key, uid) for key, uid in listed.items() if not mirror.knows(kind, key, uid)
        ]
    return missing
