"""What a reconcile wants done, as plain values: decided purely, carried out elsewhere.

The steps of a pass run in their order and end at the first that fails; then the status is
written, once, and only after it the events are posted, so that nothing is announced that did
not happen. A create that meets an object of its name (409) and a delete that meets none (404)
have reached what they wanted.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.observed import ObjectKey

Kind = Literal[
    "Pod", "Service", "HarmonyGroup", "HarmonyJob", "ResourceClaim", "PersistentVolumeClaim"
]
Manifest = Mapping[str, Any]
"""An object as it is sent to the API server."""


@dataclass(frozen=True)
class Create:
    """Create an object; its kind, namespace and name are in it."""

    manifest: Manifest


@dataclass(frozen=True)
class Try:
    """Have the API server judge an object as if it were created: nothing is, and others wait."""

    manifest: Manifest
    rests_on: str
    """Names all that the verdict rests on; what was found good lately is not tried again."""


@dataclass(frozen=True, kw_only=True)
class Delete:
    """Delete an object, but only the one with this uid."""

    kind: Kind
    key: ObjectKey
    uid: str
    grace_seconds: int | None = None
    """None: the object's own."""
    background: bool = True
    """Whether dependants follow later (or are waited for)."""


@dataclass(frozen=True, kw_only=True)
class Annotate:
    """Set annotations of an object; None removes one."""

    kind: Kind
    key: ObjectKey
    annotations: Mapping[str, str | None]


@dataclass(frozen=True, kw_only=True)
class ReplaceSpec:
    """Replace the spec of a HarmonyGroup."""

    key: ObjectKey
    spec: Manifest


@dataclass(frozen=True, kw_only=True)
class ReplaceGroupStatus:
    """Replace the status of a HarmonyGroup."""

    key: ObjectKey
    status: Manifest


@dataclass(frozen=True, kw_only=True)
class PublishSlots:
    """Replace what the status of a HarmonyGroup says of its slots, and nothing else of it."""

    key: ObjectKey
    slots: tuple[Manifest, ...]


Step = Create | Try | Delete | Annotate | ReplaceSpec | ReplaceGroupStatus | PublishSlots


@dataclass(frozen=True, kw_only=True)
class Event:
    """One line in `kubectl describe`; posted once for a change, not once per pass."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


@dataclass(frozen=True, kw_only=True)
class Actions:
    """All that one pass over a job wants done."""

    steps: tuple[Step, ...] = ()
    status: HarmonyJobStatus | None = None
    """The whole status that the job should have; None: leave it. Written only if it differs."""
    events: tuple[Event, ...] = ()
    again_after_seconds: float | None = None
    """Look again then, if nothing happens before: a deadline, a backoff, a time to live."""
