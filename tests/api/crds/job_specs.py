"""One HarmonyJob with every field, and ways to break it, each with what a user must read."""

import copy
from collections.abc import Callable
from typing import Any

Change = Callable[[dict[str, Any]], None]

FULL: dict[str, Any] = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {"name": "mlr-digits", "labels": {"kueue.x-k8s.io/queue-name": "research"}},
    "spec": {
        "suspend": False,
        "priorityClassName": "batch",
        "parameterServers": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "server", "image": "i"}]}},
        },
        "workers": {
            "replicas": 2,
            "gpusPerWorker": 1,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [{"name": "worker", "image": "i", "command": ["python"]}],
                },
            },
        },
        "sharing": {
            "policy": "Shared",
            "maxSlowdownPercent": 50,
            "deviceMemory": {"footprint": "6Gi", "minimum": "2Gi"},
            "hostMemory": {"footprint": 17179869184},
            "store": {"capacity": "50Gi"},
        },
        "profile": {
            "computeMilliseconds": 120,
            "pullMilliseconds": 40,
            "pushMilliseconds": 41,
            "updateMilliseconds": 3,
        },
        "iterations": 10000,
        "completion": {"success": "ChiefWorker", "cleanServers": False},
        "failurePolicy": {
            "backoffLimit": 2,
            "rules": [
                {
                    "action": "Fail",
                    "onExitCodes": {"containerName": "worker", "operator": "In", "values": [3]},
                },
                {
                    "action": "Ignore",
                    "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}],
                },
            ],
        },
        "activeDeadlineSeconds": 86400,
        "ttlSecondsAfterFinished": 0,
        "checkpoint": {"volumeClaimName": "ckpt", "intervalSeconds": 600},
    },
}

MINIMAL: dict[str, Any] = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {"name": "small"},
    "spec": {"workers": {"template": {"spec": {"containers": [{"name": "worker"}]}}}},
}


def changed(change: Change) -> dict[str, Any]:
    """Return the full job with one change."""
    job = copy.deepcopy(FULL)
    change(job)
    return job


def setting(path: str, value: Any) -> Change:
    """Return the change that sets a field; None removes it."""

    def change(job: dict[str, Any]) -> None:
        *parents, name = path.split(".")
        at = job
        for parent in parents:
            at = at[parent]
        if value is None:
            del at[name]
        else:
            at[name] = value

    return change


def _all(*changes: Change) -> Change:
    def change(job: dict[str, Any]) -> None:
        for each in changes:
            each(job)

    return change


_WORKERS = "spec.workers"
_DEVICE_MEMORY = "spec.sharing.deviceMemory"
_CAPACITY = "spec.sharing.store.capacity"
_RULES = "spec.failurePolicy.rules"

BROKEN_RULES: list[tuple[str, Change, str]] = [
    (
        "a name that is too long",
        setting("metadata.name", "x" * 52),
        "metadata.name is longer than 51 characters, "
        "so its pods would have no valid host name: shorten it",
    ),
    (
        "a name that no Service can have",
        setting("metadata.name", "9to5"),
        "metadata.name must be lower-case letters, digits and '-', "
        "begin with a letter and not end with '-', because it names a Service",
    ),
    (
        "half a range of workers",
        _all(setting(f"{_WORKERS}.replicas", None), setting(f"{_WORKERS}.minReplicas", 1)),
        "spec.workers: Invalid value: minReplicas and maxReplicas go together: set both or neither",
    ),
    (
        "a number and a range of workers",
        _all(setting(f"{_WORKERS}.minReplicas", 1), setting(f"{_WORKERS}.maxReplicas", 2)),
        "spec.workers: Invalid value: "
        "set either replicas, or minReplicas and maxReplicas, not both",
    ),
    (
        "a range from high to low",
        _all(
            setting(f"{_WORKERS}.replicas", None),
            setting(f"{_WORKERS}.minReplicas", 3),
            setting(f"{_WORKERS}.maxReplicas", 2),
        ),
        "spec.workers: Invalid value: minReplicas is above maxReplicas: lower minReplicas",
    ),
    (
        "a minimum above the footprint",
        setting(f"{_DEVICE_MEMORY}.minimum", "6145Mi"),
        "spec.sharing.deviceMemory: Invalid value: "
        "minimum (6145Mi) is above footprint (6Gi): lower minimum or raise footprint",
    ),
    (
        "a minimum in bytes above the footprint",
        setting(f"{_DEVICE_MEMORY}.minimum", 6 * 2**30 + 1),
        "minimum (6442450945) is above footprint (6Gi): lower minimum or raise footprint",
    ),
    (
        "memory that is no quantity",
        setting(_CAPACITY, "much"),
        'spec.sharing.store.capacity: Invalid value: "much": is no quantity of memory: '
        "write a number and one of the units Ki, Mi, Gi, Ti, k, M, G or T, as in 6Gi",
    ),
    ("thousandths of a byte", setting(_CAPACITY, "500m"), "is no quantity of memory"),
    ("a unit in the wrong case", setting(_CAPACITY, "6gi"), "is no quantity of memory"),
    ("an exponent and a unit", setting(_CAPACITY, "1e3Mi"), "is no quantity of memory"),
    ("negative memory", setting(_CAPACITY, "-1"), "is outside 0 to 2^63-2 bytes"),
    ("negative bytes", setting(_CAPACITY, -1), "is outside 0 to 2^63-2 bytes"),
    ("more memory than can be", setting(_CAPACITY, "16Ei"), "is outside 0 to 2^63-2 bytes"),
    (
        "one byte more than can be",
        setting(_CAPACITY, "9223372036854775807"),
        "is outside 0 to 2^63-2 bytes",
    ),
    (
        "an iteration that takes no time",
        setting(
            "spec.profile",
            {"computeMilliseconds": 0, "pullMilliseconds": 0, "pushMilliseconds": 0},
        ),
        "spec.profile: Invalid value: "
        "an iteration that takes no time: give milliseconds, or no profile",
    ),
    (
        "a failure rule that matches nothing",
        setting(_RULES, [{"action": "Fail"}]),
        "spec.failurePolicy.rules[0]: Invalid value: "
        "a rule matches either onExitCodes or onPodConditions: give one",
    ),
    (
        "a failure rule that matches nothing, at length",
        setting(_RULES, [{"action": "Fail", "onPodConditions": []}]),
        "a rule matches either onExitCodes or onPodConditions: give one",
    ),
    (
        "a failure rule that matches two things",
        setting(
            _RULES,
            [
                {
                    "action": "Fail",
                    "onExitCodes": {"operator": "In", "values": [1]},
                    "onPodConditions": [{"type": "DisruptionTarget"}],
                }
            ],
        ),
        "a rule matches either onExitCodes or onPodConditions: give one",
    ),
    (
        "two volumes for checkpoints",
        setting("spec.checkpoint.volumeClaimTemplate", {"spec": {}}),
        "spec.checkpoint: Invalid value: "
        "set either volumeClaimName or volumeClaimTemplate, not both",
    ),
]
"""What breaks a rule over several fields: its name, the change, what the user reads."""

OUT_OF_BOUNDS: list[tuple[str, Any, str]] = [
    ("spec.workers", None, "spec.workers: Required value"),
    ("spec.workers.template", None, "spec.workers.template: Required value"),
    ("spec.workers.template", "a text", "must be of type object"),
    ("spec.workers.replicas", 0, "should be greater than or equal to 1"),
    ("spec.workers.replicas", 1025, "should be less than or equal to 1024"),
    ("spec.workers.replicas", "2", "must be of type integer"),
    ("spec.workers.gpusPerWorker", 65, "should be less than or equal to 64"),
    ("spec.parameterServers.replicas", 0, "should be greater than or equal to 1"),
    ("spec.parameterServers.replicas", 1025, "should be less than or equal to 1024"),
    ("spec.sharing.policy", "shared", 'supported values: "Shared", "Exclusive"'),
    ("spec.sharing.maxSlowdownPercent", -1, "should be greater than or equal to 0"),
    ("spec.sharing.maxSlowdownPercent", 0.5, "must be of type integer"),
    ("spec.sharing.deviceMemory.footprint", None, "footprint: Required value"),
    ("spec.sharing.deviceMemory.footprint", "9" * 33, "may not be more than 32"),
    ("spec.sharing.store.capacity", 1.5, "must be of type integer,string"),
    ("spec.sharing.store.capacity", True, "must be of type integer,string"),
    ("spec.profile.pushMilliseconds", None, "pushMilliseconds: Required value"),
    ("spec.profile.pullMilliseconds", -1, "should be greater than or equal to 0"),
    ("spec.iterations", 0, "should be greater than or equal to 1"),
    ("spec.iterations", 2**53 + 1, "should be less than or equal to"),
    ("spec.completion.success", "Any", 'supported values: "AllWorkers", "ChiefWorker"'),
    ("spec.failurePolicy.backoffLimit", -1, "should be greater than or equal to 0"),
    (
        "spec.failurePolicy.rules",
        [{"action": "Ignore", "onPodConditions": [{"type": "Ready"}]}] * 21,
        "must have at most 20 items",
    ),
    (
        "spec.failurePolicy.rules",
        [{"action": "Fail", "onExitCodes": {"operator": "In", "values": []}}],
        "should have at least 1 items",
    ),
    (
        "spec.failurePolicy.rules",
        [{"action": "Fail", "onExitCodes": {"operator": "In", "values": [256]}}],
        "should be less than or equal to 255",
    ),
    (
        "spec.failurePolicy.rules",
        [{"action": "Retry", "onPodConditions": [{"type": "Ready"}]}],
        'supported values: "Fail", "Restart", "Ignore"',
    ),
    ("spec.activeDeadlineSeconds", 0, "should be greater than or equal to 1"),
    ("spec.ttlSecondsAfterFinished", -1, "should be greater than or equal to 0"),
    ("spec.checkpoint.intervalSeconds", 0, "should be greater than or equal to 1"),
    ("spec.checkpoint.volumeClaimName", "Claim", "should match"),
    ("spec.priorityClassName", "High", "should match"),
    ("spec.priorityClassName", "p" * 254, "may not be more than 253"),
]
"""A field, a value outside its bounds (None: absent), what the user reads."""

GOOD: list[tuple[str, Change]] = [
    ("every field", setting("spec.suspend", True)),
    (
        "a range of workers",
        _all(
            setting("spec.workers.replicas", None),
            setting("spec.workers.minReplicas", 2),
            setting("spec.workers.maxReplicas", 2),
        ),
    ),
    ("a minimum that is the footprint", setting(f"{_DEVICE_MEMORY}.minimum", "6144Mi")),
    ("no memory at all", setting(_CAPACITY, 0)),
    ("all the memory that can be", setting(_CAPACITY, "9223372036854775806")),
    ("a broken number of bytes", setting(_CAPACITY, "1.5Gi")),
    ("an exponent", setting(_CAPACITY, "2e9")),
    ("exabytes", setting(_CAPACITY, "1E")),
    ("a signed number", setting(_CAPACITY, "+.5Mi")),
    (
        "a volume for each server",
        setting(
            "spec.checkpoint",
            {
                "volumeClaimTemplate": {
                    "spec": {
                        "accessModes": ["ReadWriteOnce"],
                        "resources": {"requests": {"storage": "1Gi"}},
                    }
                }
            },
        ),
    ),
    ("the longest name", setting("metadata.name", "x" * 51)),
]
"""Jobs at the edge of what is allowed."""

IMMUTABLE: list[tuple[str, Any, str]] = [
    ("spec.iterations", 20000, "spec.iterations: Invalid value: iterations cannot be changed"),
    ("spec.iterations", None, "iterations cannot be changed"),
    ("spec.completion.success", "AllWorkers", "completion cannot be changed"),
    ("spec.checkpoint", None, "checkpoint cannot be changed"),
    ("spec.checkpoint.intervalSeconds", 5, "checkpoint cannot be changed"),
    ("spec.parameterServers.replicas", 2, "replicas cannot be changed"),
    ("spec.workers.replicas", 1, "spec.workers.replicas: Invalid value: replicas cannot be"),
    ("spec.workers.minReplicas", 1, "spec.workers.minReplicas: Invalid value: minReplicas cannot"),
    ("spec.workers.maxReplicas", 1, "spec.workers.maxReplicas: Invalid value: maxReplicas cannot"),
    ("spec.workers.gpusPerWorker", 2, "gpusPerWorker cannot be changed"),
    (
        "spec.workers.template.spec.nodeSelector",
        {"a": "b"},
        "spec.workers.template: Invalid value: a template can be changed only while the job is "
        "suspended: set suspend to true first, or delete the job and create it anew",
    ),
    (
        "spec.workers.template.spec.tolerations",
        None,
        "a template can be changed only while the job is suspended",
    ),
    (
        "spec.parameterServers.template",
        None,
        "spec.parameterServers.template: Invalid value: a template can be changed only while",
    ),
]
"""A field of a running job, its new value (None: removed), what the user reads."""

MUTABLE: list[tuple[str, Any]] = [
    ("spec.suspend", True),
    ("spec.priorityClassName", "urgent"),
    ("spec.priorityClassName", None),
    ("spec.sharing.policy", "Exclusive"),
    ("spec.sharing.maxSlowdownPercent", 10),
    ("spec.sharing.deviceMemory.footprint", "8Gi"),
    ("spec.profile", None),
    ("spec.failurePolicy.backoffLimit", 3),
    ("spec.failurePolicy.rules", None),
    ("spec.activeDeadlineSeconds", 1),
    ("spec.ttlSecondsAfterFinished", None),
    ("metadata.labels", {"team": "b"}),
]
"""A field of a running job and its new value (None: removed)."""
