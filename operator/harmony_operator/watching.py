"""kopf's part: it finds the resources, watches them, and brings each event to the mirror.

Only `on.event` handlers are used. They leave nothing in the objects (no finalizer, no
annotation), so a deletion never waits for an operator. kopf's own index would be a second
mirror that cannot take in the operator's own writes, and it keeps an object whose deletion
happened while a watch was broken; see `resync` for those.
"""

from collections.abc import Iterator
from typing import Any, Final, get_args

import kopf

from harmony_api import labels
from harmony_operator import parsing
from harmony_operator.api_client import RESOURCES
from harmony_operator.mirror import Mirror
from harmony_operator.mirrored import MirroredKind

KINDS: Final[tuple[MirroredKind, ...]] = get_args(MirroredKind)

SELECTORS: Final[dict[MirroredKind, str]] = {"Pod": labels.ROLE, "Service": labels.ROLE}
"""Label selector of the kinds that others have many of."""


INACTIVITY_SECONDS: Final = 70.0
"""A watch is opened anew after that long without a word; the API server says one each minute."""


class _Backoffs:
    """Pauses in seconds between tries of one request: never the last one.

    kopf takes a watch that cannot be opened for the end of the operator; but an API server
    that restarts is no reason to end.
    """

    def __iter__(self) -> Iterator[float]:
        yield from (0.5, 1, 2, 3, 5)
        while True:
            yield 5


class _NoDiffs(kopf.DiffBaseStorage):
    """Keeps nothing of an object: nobody asks what changed since it was last handled.

    kopf's own storages copy the whole object several times per event, which is most of what an
    event costs.
    """

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass


class _NoProgress(kopf.ProgressStorage):
    """Keeps nothing of handlers: none is tried twice."""

    def fetch(self, **_: Any) -> Any:
        return None

    def store(self, **_: Any) -> None:
        pass

    def purge(self, **_: Any) -> None:
        pass

    def touch(self, **_: Any) -> None:
        pass

    def clear(self, *, essence: Any) -> Any:
        return essence


def configure(settings: kopf.OperatorSettings) -> None:
    """Set how kopf watches."""
    settings.peering.standalone = True
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.progress_storage = _NoProgress()
    settings.networking.connect_timeout = 10
    settings.networking.request_timeout = 60
    settings.networking.error_backoffs = _Backoffs()
    settings.watching.inactivity_timeout = INACTIVITY_SECONDS
    for kind, selector in SELECTORS.items():
        resource = RESOURCES[kind]
        settings.watching.label_selectors["", resource.group_version, resource.plural] = selector


def watch(registry: kopf.OperatorRegistry, mirror: Mirror) -> None:
    """Have every event of the mirrored kinds brought to the mirror."""
    for kind in KINDS:
        group, _, version = RESOURCES[kind].group_version.rpartition("/")
        kopf.on.event(
            group=group,
            version=version,
            plural=RESOURCES[kind].plural,
            id=kind,
            registry=registry,
        )(_handler(kind, mirror))


def _handler(kind: MirroredKind, mirror: Mirror) -> Any:
    async def handle(event: kopf.RawEvent, **_: Any) -> None:
        raw = event["object"]
        if event["type"] == "DELETED":
            mirror.forget(kind, parsing.key_of(raw), raw["metadata"]["uid"])
        else:
            mirror.observe(kind, raw)

    return handle
