"""Raw objects of the API server as the values that decisions rest on.

Tolerant: an object may lack any field that its schema does not force on it, since an older
version, another client or nobody yet wrote it; only a HarmonyJob's spec is judged, and what is
wrong with it becomes `errors`. No function here raises on an object that the API server holds.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from harmony_api import harmony_group, job, labels
from harmony_api.field_errors import explain, path_text
from harmony_api.harmony_group import HarmonyGroupSpec, HarmonyGroupStatus
from harmony_api.job import HarmonyJob
from harmony_api.job_status import HarmonyJobStatus
from harmony_api.quantity import QuantityError, parse_quantity
from harmony_operator.observed import (
    ObjectKey,
    ObservedClaim,
    ObservedDevice,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    ObservedReservation,
    ObservedService,
    PodPhase,
    Role,
    Taint,
    Termination,
    VolumeClaim,
)

Raw = Mapping[str, Any]
"""An object as the API server sends it."""

_Model = TypeVar("_Model", bound=BaseModel)
_PHASES: tuple[str, ...] = get_args(PodPhase)
_ROLES: tuple[str, ...] = get_args(Role)


def key_of(raw: Raw) -> ObjectKey:
    """Return where the object lives."""
    metadata = raw["metadata"]
    return ObjectKey(metadata.get("namespace") or "", metadata["name"])


def seconds(time: str | None) -> float | None:
    """Return an RFC 3339 time in seconds since the epoch; None where there is none."""
    try:
        return None if time is None else datetime.fromisoformat(time).timestamp()
    except ValueError:
        return None


def owner_uid(metadata: Raw, kind: str) -> str:
    """Return the uid of the owner of this kind; empty where there is none."""
    owners = metadata.get("ownerReferences") or ()
    return next((one.get("uid", "") for one in owners if one.get("kind") == kind), "")


def parse_job(raw: Raw) -> ObservedJob:
    """Parse a HarmonyJob."""
    metadata = raw["metadata"]
    job: HarmonyJob | None = None
    errors: tuple[str, ...] = ()
    try:
        job = HarmonyJob.from_cluster(raw)
    except ValidationError as error:
        errors = tuple(
            f"{path_text(path)}: {message}" if path else message
            for path, message in explain(HarmonyJob, error)
        )
    return ObservedJob(
        key=key_of(raw),
        uid=metadata.get("uid", ""),
        generation=metadata.get("generation", 0),
        created_seconds=seconds(metadata.get("creationTimestamp")) or 0.0,
        deleting="deletionTimestamp" in metadata,
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        job=job,
        errors=errors,
        status=_tolerant(HarmonyJobStatus, raw.get("status")),
        raw_spec=raw.get("spec") or {},
    )


def parse_group(raw: Raw) -> ObservedGroup | None:
    """Parse a HarmonyGroup; None where its spec makes no sense, which only an editor does."""
    metadata = raw["metadata"]
    try:
        spec = HarmonyGroupSpec.model_validate(raw.get("spec"))
    except ValidationError:
        return None
    return ObservedGroup(
        key=key_of(raw),
        uid=metadata.get("uid", ""),
        created_seconds=seconds(metadata.get("creationTimestamp")) or 0.0,
        deleting="deletionTimestamp" in metadata,
        spec=spec,
        status=_tolerant(HarmonyGroupStatus, raw.get("status")),
    )


def parse_pod(raw: Raw) -> ObservedPod | None:
    """Parse a pod of a job; None where its labels do not tell whose it is."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    named = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    role = named.get(labels.ROLE)
    if role not in _ROLES or not named.get(labels.JOB_NAME):
        return None
    main = next((one for one in _containers(status) if one.get("name") == role), {})
    waiting_reason, waiting_message = _waiting(status)
    conditions = _conditions(status)
    scheduled = conditions.get("PodScheduled", {})
    return ObservedPod(
        key=key_of(raw),
        uid=metadata.get("uid", ""),
        job=named[labels.JOB_NAME],
        job_uid=named.get(labels.JOB_UID, ""),
        role=role,
        index=_integer(named.get(labels.INDEX)),
        group=named.get(labels.GROUP, ""),
        slot=annotations.get(labels.SLOT, ""),
        node_plan=annotations.get(labels.NODE_PLAN, ""),
        devices=_devices(annotations),
        node=(raw.get("spec") or {}).get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=_phase(status),
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        ready=conditions.get("Ready", {}).get("status") == "True",
        created_seconds=seconds(metadata.get("creationTimestamp")) or 0.0,
        scheduled_seconds=_since_seconds(scheduled, "True"),
        started_seconds=_started_seconds(main),
        unready_since_seconds=_since_seconds(conditions.get("Ready", {}), "False"),
        deleting_since_seconds=seconds(metadata.get("deletionTimestamp")),
        stop_asked_seconds=seconds(annotations.get(labels.STOP_TIME)),
        termination=_termination(main),
        waiting_reason=waiting_reason,
        waiting_message=waiting_message,
        unschedulable_message=(
            scheduled.get("message") or "" if scheduled.get("reason") == "Unschedulable" else ""
        ),
        disrupted=conditions.get("DisruptionTarget", {}).get("status") == "True",
        conditions={name: one.get("status", "Unknown") for name, one in conditions.items()},
    )


def parse_reservation(raw: Raw) -> ObservedReservation | None:
    """Parse a pod that reserves a slot's devices; None where it is another pod."""
    metadata, status = raw["metadata"], raw.get("status") or {}
    named = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    if named.get(labels.ROLE) != "reservation":
        return None
    scheduled = _conditions(status).get("PodScheduled", {})
    phase = _phase(status)
    problem = ""
    if phase in ("Failed", "Succeeded"):
        problem = _words(status.get("reason"), status.get("message")) or f"it ended as {phase}"
    elif scheduled.get("reason") == "Unschedulable":
        problem = _words("Unschedulable", scheduled.get("message"))
    else:
        problem = _words(*_waiting(status))
    return ObservedReservation(
        key=key_of(raw),
        uid=metadata.get("uid", ""),
        group=named.get(labels.GROUP, ""),
        slot=annotations.get(labels.SLOT, ""),
        owner_uid=owner_uid(metadata, harmony_group.KIND),
        node=(raw.get("spec") or {}).get("nodeName") or "",
        ip=status.get("podIP") or "",
        phase=phase,
        deleting_since_seconds=seconds(metadata.get("deletionTimestamp")),
        created_seconds=seconds(metadata.get("creationTimestamp")) or 0.0,
        devices=_devices(annotations),
        problem=problem,
    )


def parse_node(raw: Raw) -> ObservedNode:
    """Parse a node."""
    spec, status = raw.get("spec") or {}, raw.get("status") or {}
    return ObservedNode(
        name=raw["metadata"]["name"],
        ready=_conditions(status).get("Ready", {}).get("status") == "True",
        schedulable=not spec.get("unschedulable"),
        taints=frozenset(
            Taint(taint.get("key") or "", taint.get("value") or "", taint["effect"])
            for taint in spec.get("taints") or ()
            if taint.get("effect") in ("NoSchedule", "NoExecute")
        ),
        labels=raw["metadata"].get("labels") or {},
        allocatable={
            name: _whole(amount) for name, amount in (status.get("allocatable") or {}).items()
        },
    )


def parse_claim(raw: Raw) -> ObservedClaim:
    """Parse a ResourceClaim."""
    metadata = raw["metadata"]
    named, annotations = metadata.get("labels") or {}, metadata.get("annotations") or {}
    allocation = (raw.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return ObservedClaim(
        key=key_of(raw),
        uid=metadata.get("uid", ""),
        group=named.get(labels.GROUP, ""),
        slot=annotations.get(labels.SLOT, ""),
        owner_uid=owner_uid(metadata, harmony_group.KIND),
        devices=tuple(
            f"{one.get('driver')}/{one.get('pool')}/{one.get('device')}"
            for one in sorted(results, key=lambda one: str(one.get("request")))
        ),
        deleting="deletionTimestamp" in metadata,
    )


def parse_service(raw: Raw) -> ObservedService:
    """Parse the Service of a job."""
    return ObservedService(key=key_of(raw), owner_uid=owner_uid(raw["metadata"], job.KIND))


def parse_volume_claim(raw: Raw) -> VolumeClaim:
    """Parse a PersistentVolumeClaim."""
    return VolumeClaim(
        access_modes=frozenset((raw.get("spec") or {}).get("accessModes") or ()),
        owner_uid=owner_uid(raw["metadata"], job.KIND),
    )


def parse_slice(raw: Raw) -> tuple[str, int, tuple[ObservedDevice, ...]]:
    """Parse a ResourceSlice into its pool, the pool's generation and the devices."""
    spec = raw.get("spec") or {}
    pool, driver = spec.get("pool") or {}, spec.get("driver") or ""
    devices = tuple(
        _device(one, spec.get("nodeName") or one.get("nodeName") or "", driver, pool.get("name"))
        for one in spec.get("devices") or ()
    )
    return f"{driver}/{pool.get('name')}", pool.get("generation", 0), devices


def _device(raw: Raw, node: str, driver: str, pool: str | None) -> ObservedDevice:
    attributes, capacity = raw.get("attributes") or {}, raw.get("capacity") or {}
    named = {name.rpartition("/")[2]: value for name, value in attributes.items()}
    kind = next(
        (
            str(named[name]["string"])
            for name in ("productName", "model", "type")
            if "string" in named.get(name, {})
        ),
        "",
    )
    memory = (capacity.get("memory") or {}).get("value")
    return ObservedDevice(
        node=node,
        driver=driver,
        pool=pool or "",
        name=raw.get("name") or "",
        kind=kind,
        memory_bytes=None if memory is None else _whole(memory),
    )


def _devices(annotations: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(filter(None, annotations.get(labels.DEVICES, "").split(",")))


def _containers(status: Raw) -> Sequence[Raw]:
    return [*(status.get("containerStatuses") or ())]


def _waiting(status: Raw) -> tuple[str, str]:
    """Why a container cannot start, the main container before others; empty words if none."""
    for one in [*_containers(status), *(status.get("initContainerStatuses") or ())]:
        waiting = (one.get("state") or {}).get("waiting") or {}
        reason = waiting.get("reason") or ""
        if reason not in ("", "PodInitializing", "ContainerCreating"):
            return reason, waiting.get("message") or ""
    return "", ""


def _termination(container: Raw) -> Termination | None:
    ended = (container.get("state") or {}).get("terminated")
    if not ended:
        return None
    return Termination(
        exit_code=ended.get("exitCode", 0),
        reason=ended.get("reason") or "",
        message=ended.get("message") or "",
        finished_seconds=seconds(ended.get("finishedAt")) or 0.0,
    )


def _started_seconds(container: Raw) -> float | None:
    state = container.get("state") or {}
    return seconds((state.get("running") or state.get("terminated") or {}).get("startedAt"))


def _conditions(status: Raw) -> dict[str, Raw]:
    return {one["type"]: one for one in status.get("conditions") or () if "type" in one}


def _since_seconds(condition: Raw, status: str) -> float | None:
    """Return since when the condition has this status; None where it has another one."""
    return (
        seconds(condition.get("lastTransitionTime")) if condition.get("status") == status else None
    )


def _phase(status: Raw) -> PodPhase:
    phase = status.get("phase")
    return phase if phase in _PHASES else "Pending"


def _words(reason: str | None, message: str | None) -> str:
    return ": ".join(word for word in (reason, message) if word)


def _whole(amount: object) -> int:
    """Return a quantity rounded down to whole units; 0 where it is none."""
    try:
        return int(parse_quantity(str(amount)))
    except QuantityError:
        return 0


def _integer(text: str | None) -> int:
    return int(text) if text and text.isascii() and text.isdigit() else 0


def _tolerant(model: type[_Model], value: object) -> _Model:
    """Parse what the operator wrote; what does not parse is as if it were not there."""
    try:
        return model.model_validate(value or {})
    except ValidationError as error:
        broken = {detail["loc"][0] for detail in error.errors() if detail["loc"]}
        if not isinstance(value, Mapping) or not broken:
            return model()
        return _tolerant(model, {name: one for name, one in value.items() if name not in broken})
