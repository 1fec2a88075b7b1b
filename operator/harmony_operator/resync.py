"""Compares the mirror with lists of what exists: before the first decision, and now and then.

A decision on half a cluster would be wrong (a group not seen yet looks like a job without a
place), so nothing is decided before everything that exists has been seen. And kopf, which
lists again when a watch was broken for long, does not tell what disappeared meanwhile; so
after an outage, and every `PERIOD_SECONDS`, what no list shows any more is forgotten. And a
watch that brings nothing without saying so would have the operator decide on the past for
ever: if what a list shows does not arrive, the process ends, and the next one watches anew.
Lists are of metadata only.
"""

import asyncio
import logging
from typing import Final

from harmony_operator import parsing, watching
from harmony_operator.api_client import ApiClient, ApiError
from harmony_operator.mirror import Mirror
from harmony_operator.mirrored import MirroredKind
from harmony_operator.observed import ObjectKey

PERIOD_SECONDS: Final = 300.0
_PATIENCE_SECONDS: Final = 5.0
"""After a list the watches have that long to bring what is in it; then it is listed again."""
STALLED_SECONDS: Final = watching.INACTIVITY_SECONDS + 30.0
"""A watch that is that far behind a list has stopped, and was not opened anew."""
_POLL_SECONDS: Final = 0.05
_RETRY_SECONDS: Final = 2.0

_logger = logging.getLogger(__name__)

Missing = list[tuple[MirroredKind, ObjectKey, str, int]]
"""Kind, key, uid and version of objects that exist and were not seen yet as they are."""


class WatchStoppedError(Exception):
    """A watch does not bring what exists."""


async def first_sync(client: ApiClient, mirror: Mirror) -> None:
    """Return once everything that exists has been seen."""
    while True:
        try:
            missing = await compare(client, mirror)
        except ApiError as error:
            _logger.warning("waiting for the API server: %s", error)
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        missing = await _still_missing(missing, mirror, _PATIENCE_SECONDS)
        if not missing:
            return
        kind, key, *_ = missing[0]
        _logger.info("%d objects were not seen yet, such as %s %s", len(missing), kind, key)


async def keep_in_sync(client: ApiClient, mirror: Mirror) -> None:
    """Forget what is gone, after each outage and every `PERIOD_SECONDS`; never returns.

    Raises WatchStoppedError where a watch does not bring what exists.
    """
    while True:
        try:
            async with asyncio.timeout(PERIOD_SECONDS):
                await client.outage_seen.wait()
        except TimeoutError:
            pass
        try:
            client.outage_seen.clear()
            missing = await compare(client, mirror)
        except ApiError:
            await asyncio.sleep(_RETRY_SECONDS)
            continue
        missing = await _still_missing(missing, mirror, STALLED_SECONDS)
        if missing and not client.outage_seen.is_set():
            kind, key, _, version = missing[0]
            raise WatchStoppedError(
                f"version {version} of {kind} {key} and {len(missing) - 1} other objects "
                f"were not seen within {STALLED_SECONDS:.0f} s"
            )


async def _still_missing(missing: Missing, mirror: Mirror, patience_seconds: float) -> Missing:
    """Return what the watches have not brought within the time."""
    deadline = asyncio.get_running_loop().time() + patience_seconds
    while missing and asyncio.get_running_loop().time() < deadline:
        await asyncio.sleep(_POLL_SECONDS)
        missing = [one for one in missing if not mirror.knows(*one)]
    return missing


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
            parsing.key_of(one): (one["metadata"]["uid"], int(one["metadata"]["resourceVersion"]))
            for one in found.get("items") or ()
        }
        version = int(found["metadata"]["resourceVersion"])
        for key, (uid, seen) in mirror.known(kind).items():
            if seen <= version and (key not in listed or listed[key][0] != uid):
                _logger.info("%s %s is gone", kind, key)
                mirror.forget(kind, key, uid)
        missing += [
            (kind, key, *seen) for key, seen in listed.items() if not mirror.knows(kind, key, *seen)
        ]
    return missing
