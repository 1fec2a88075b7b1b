"""What is wrong with a job's pod templates, found before anything is created.

The resource's schema lets any pod template through, for a whole pod's schema would make it
too large to apply. So a template is read with the official client's models, which know every
field and type, then held against the API server's rules that are easily broken, and against
what Harmony needs for itself. What is left for the API server to refuse is rare.
"""

import copy
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from kubernetes.client import V1PersistentVolumeClaimTemplate, V1PodTemplateSpec
from pydantic import ValidationError
from pydantic.alias_generators import to_camel

from harmony_api.field_errors import FieldPath, explain, path_text
from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER
from harmony_api.labels import DOMAIN
from harmony_api.pod_layout import RUN_FOLDER
from harmony_api.quantity import QuantityError, parse_quantity
from harmony_operator.observed import ObservedJob

Fault = tuple[FieldPath, str]

_RESERVED_PREFIX: Final = "harmony-"
"""Of names within a pod: containers, volumes, claims."""
_QUANTITY_MAPS: Final = ("limits", "requests", "overhead")
_QUANTITIES: Final = ("sizeLimit", "divisor")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_LABEL_KEY: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_LABEL_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "imagePullPolicy": ("Always", "IfNotPresent", "Never"),
    "terminationMessagePolicy": ("File", "FallbackToLogsOnError"),
    "dnsPolicy": ("ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"),
    "protocol": ("TCP", "UDP", "SCTP"),
}
_HARMONY_SETS: Final[Mapping[str, str]] = {
    "nodeName": "the plan chooses the node; use nodeSelector or affinity to restrict it",
    "hostname": "Harmony names the pods' hosts",
    "hostnameOverride": "Harmony names the pods' hosts",
    "subdomain": "Harmony names the pods' hosts",
    "hostNetwork": "pods of one node would use the same ports",
    "ephemeralContainers": "they are added to running pods only",
}


def template_errors(job: ObservedJob) -> tuple[str, ...]:
    """Return the faults in the raw pod templates, each with its field path; empty: none.

    Those that the resource's own models found are in `job.errors`, and not told again.
    """
    told = {error.partition(": ")[0] for error in job.errors}
    errors = []
    for field, container in (("parameterServers", SERVER_CONTAINER), ("workers", WORKER_CONTAINER)):
        role = job.raw_spec.get(field)
        template = role.get("template") if isinstance(role, Mapping) else None
        if template is None:
            continue
        for path, message in _faults(template, container):
            where = path_text(("spec", field, "template", *path))
            if where not in told:
                errors.append(f"{where}: {message}")
    return tuple(errors)


def volume_claim_errors(job: ObservedJob) -> tuple[str, ...]:
    """Return every fault in the template of the servers' volume claims."""
    checkpoint = job.raw_spec.get("checkpoint")
    template = checkpoint.get("volumeClaimTemplate") if isinstance(checkpoint, Mapping) else None
    if template is None:
        return ()
    template = copy.deepcopy(template)
    faults = list(_write_quantities_as_text(template, ()))
    try:
        spec = V1PersistentVolumeClaimTemplate.model_validate(template).spec
    except ValidationError as error:
        faults += explain(V1PersistentVolumeClaimTemplate, error)
    else:
        if not spec.access_modes:
            faults.append((("spec", "accessModes"), "give one, such as [ReadWriteOnce]"))
        if spec.resources is None or "storage" not in (spec.resources.requests or {}):
            faults.append((("spec", "resources", "requests", "storage"), "say how much"))
    where = ("spec", "checkpoint", "volumeClaimTemplate")
    return tuple(f"{path_text((*where, *path))}: {message}" for path, message in faults)


def _faults(template: object, main: str) -> list[Fault]:
    """Return the faults of a template; its meaning is judged only where its form is right."""
    if not isinstance(template, dict):
        return [((), "must be a mapping of fields")]
    template = copy.deepcopy(template)
    faults = list(_write_quantities_as_text(template, ()))
    try:
        known = V1PodTemplateSpec.model_validate(template)
    except ValidationError as error:
        return faults + list(explain(V1PodTemplateSpec, error))
    dumped = known.model_dump(by_alias=True, exclude_unset=True)
    faults += _python_names(template, dumped, ())
    if faults:
        return faults
    if known.spec is None or not known.spec.containers:
        return [(("spec", "containers"), f"needs a container named '{main}'")]
    return [*_metadata_faults(template.get("metadata") or {}), *_pod_faults(template["spec"], main)]


def _write_quantities_as_text(value: Any, path: FieldPath) -> Iterator[Fault]:
    """Do as the API server does with `cpu: 2`, and yield the quantities that are none."""
    if isinstance(value, list):
        for index, item in enumerate(value):
            yield from _write_quantities_as_text(item, (*path, index))
    elif isinstance(value, dict):
        within = bool(path) and path[-1] in _QUANTITY_MAPS
        for key, item in value.items():
            if not within and key not in _QUANTITIES:
                yield from _write_quantities_as_text(item, (*path, key))
            elif isinstance(item, str | int | float) and not isinstance(item, bool):
                value[key] = str(item)
                try:
                    parse_quantity(value[key])
                except QuantityError as error:
                    yield (*path, key), str(error)


def _python_names(raw: Any, known: Any, path: FieldPath) -> Iterator[Fault]:
    """Yield fields in the client's Python spelling, which its models take and no cluster does."""
    if isinstance(raw, list) and isinstance(known, list):
        for index, (item, its) in enumerate(zip(raw, known, strict=True)):
            yield from _python_names(item, its, (*path, index))
    elif isinstance(raw, dict) and isinstance(known, dict):
        for key, item in raw.items():
            if key in known:
                yield from _python_names(item, known[key], (*path, key))
            else:
                yield (*path, key), f"unknown field: did you mean '{to_camel(key)}'?"


def _metadata_faults(metadata: Mapping[str, Any]) -> Iterator[Fault]:
    for field in ("finalizers", "ownerReferences"):
        if metadata.get(field):
            yield ("metadata", field), "remove it: Harmony owns the pods"
    for field in ("labels", "annotations"):
        for key in metadata.get(field) or {}:
            if key.partition("/")[0] == DOMAIN:
                yield ("metadata", field, key), f"remove it: {DOMAIN}/ is Harmony's own"
    yield from _label_faults(metadata.get("labels"), ("metadata", "labels"))


def _pod_faults(spec: Mapping[str, Any], main: str) -> Iterator[Fault]:
    at: FieldPath = ("spec",)
    if spec.get("restartPolicy") not in (None, "Never"):
        yield (*at, "restartPolicy"), "must be Never or absent: Harmony replaces pods that fail"
    for field, why in _HARMONY_SETS.items():
        if spec.get(field):
            yield (*at, field), f"remove it: {why}"
    yield from _choice_faults(spec, at)
    yield from _label_faults(spec.get("nodeSelector"), (*at, "nodeSelector"))
    yield from _name_faults(spec.get("volumes"), (*at, "volumes"))
    yield from _name_faults(spec.get("resourceClaims"), (*at, "resourceClaims"))
    containers = [
        ((*at, field, index), container)
        for field in ("containers", "initContainers")
        for index, container in enumerate(spec.get(field) or ())
    ]
    counts = Counter(container["name"] for _, container in containers)
    if main not in (container["name"] for container in spec["containers"]):
        yield (*at, "containers"), f"needs a container named '{main}'"
    volumes = {volume["name"] for volume in spec.get("volumes") or ()}
    for path, container in containers:
        name = container["name"]
        yield from _name_fault(name, (*path, "name"))
        if counts[name] > 1:
            yield (*path, "name"), f"two containers are named '{name}': rename one"
        yield from _container_faults(container, path, volumes)
    if main == WORKER_CONTAINER:
        yield from _device_faults(containers)


def _container_faults(
    container: Mapping[str, Any], path: FieldPath, volumes: set[str]
) -> Iterator[Fault]:
    if not (container.get("image") or "").strip():
        yield (*path, "image"), "is required on a cluster"
    yield from _choice_faults(container, path)
    for index, port in enumerate(container.get("ports") or ()):
        at = (*path, "ports", index)
        yield from _choice_faults(port, at)
        if not 1 <= port["containerPort"] <= 65535:
            yield (*at, "containerPort"), "must be between 1 and 65535"
    resources = container.get("resources") or {}
    limits = resources.get("limits") or {}
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and parse_quantity(amount) > parse_quantity(limits[name]):
            yield (
                (*path, "resources", "requests", name),
                f"is {amount}, above the limit of {limits[name]}: lower it or raise the limit",
            )
    paths = Counter(mount["mountPath"] for mount in container.get("volumeMounts") or ())
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        at = (*path, "volumeMounts", index)
        where = mount["mountPath"]
        if mount["name"] not in volumes:
            yield (*at, "name"), f"no volume of the pod is named '{mount['name']}'"
        if paths[where] > 1:
            yield (*at, "mountPath"), f"two volumes are mounted at {where}: move one"
        if where.rstrip("/") == RUN_FOLDER:
            yield (*at, "mountPath"), f"{RUN_FOLDER} is Harmony's own: mount it elsewhere"


def _device_faults(containers: Sequence[tuple[FieldPath, Mapping[str, Any]]]) -> Iterator[Fault]:
    """A GPU that a worker asked for by itself would be its alone, beside those of its slot."""
    for path, container in containers:
        for field in ("limits", "requests"):
            for name in (container.get("resources") or {}).get(field) or {}:
                if name.endswith("/gpu"):
                    yield (
                        (*path, "resources", field, name),
                        "remove it: spec.workers.gpusPerWorker says how many GPUs a worker uses",
                    )


def _name_faults(items: Sequence[Mapping[str, Any]] | None, path: FieldPath) -> Iterator[Fault]:
    counts = Counter(item["name"] for item in items or ())
    for index, item in enumerate(items or ()):
        at = (*path, index, "name")
        yield from _name_fault(item["name"], at)
        if counts[item["name"]] > 1:
            yield at, f"two are named '{item['name']}': rename one"


def _name_fault(name: str, path: FieldPath) -> Iterator[Fault]:
    if name.startswith(_RESERVED_PREFIX):
        yield path, f"rename it: names that begin with '{_RESERVED_PREFIX}' are Harmony's own"
    elif not _NAME.fullmatch(name):
        yield (
            path,
            f"must be at most 63 lower-case letters, digits and '-', and neither begin nor end "
            f"with '-': it is {name!r}",
        )


def _label_faults(labels: Mapping[str, str] | None, path: FieldPath) -> Iterator[Fault]:
    for key, value in (labels or {}).items():
        if not (_LABEL_KEY.fullmatch(key) and _LABEL_VALUE.fullmatch(value)):
            yield (
                (*path, key),
                f"'{key}: {value}' is no label: at most 63 letters, digits, '-', '_' and '.', "
                "beginning and ending with a letter or digit",
            )


def _choice_faults(value: Mapping[str, Any], path: FieldPath) -> Iterator[Fault]:
    for field, choices in _CHOICES.items():
        given = value.get(field)
        if given is not None and given not in choices:
            yield (*path, field), f"must be {' or '.join(choices)}: it is {given!r}"
