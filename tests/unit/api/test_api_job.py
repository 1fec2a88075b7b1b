import copy
from collections.abc import Callable
from typing import Any

import pytest
from pydantic import ValidationError

from harmony_api.job import LONGEST_JOB_NAME, HarmonyJob

Change = Callable[[dict[str, Any]], None]

FULL: dict[str, Any] = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {
        "name": "mlr-digits",
        "namespace": "team-a",
        "labels": {"kueue.x-k8s.io/queue-name": "research"},
        "uid": "0d7c",
        "creationTimestamp": "2030-01-01T00:00:00Z",
    },
    "spec": {
        "suspend": False,
        "priorityClassName": "batch",
        "parameterServers": {
            "replicas": 1,
            "template": {"spec": {"containers": [{"name": "server", "command": ["serve"]}]}},
        },
        "workers": {
            "replicas": 2,
            "gpusPerWorker": 1,
            "template": {
                "metadata": {"labels": {"a": "b"}},
                "spec": {
                    "hostIPC": True,
                    "tolerations": [{"operator": "Exists"}],
                    "containers": [
                        {
                            "name": "worker",
                            "image": "registry/image:tag",
                            "command": ["python"],
                            "args": ["train.py"],
                            "env": [{"name": "A", "value": "3"}],
                            "workingDir": "/work",
                            "resources": {"limits": {"cpu": 0.5, "memory": "4Gi"}},
                            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                        },
                        {"name": "logs", "image": "i"},
                    ],
                },
            },
        },
        "sharing": {
            "policy": "Shared",
            "maxSlowdownPercent": 50,
            "deviceMemory": {"footprint": "6Gi", "minimum": "2Gi"},
            "hostMemory": {"footprint": "16Gi", "minimum": "4Gi"},
            "store": {"capacity": "50Gi"},
        },
        "profile": {"computeMilliseconds": 120, "pullMilliseconds": 40, "pushMilliseconds": 41},
        "iterations": 10000,
        "completion": {"success": "ChiefWorker", "cleanServers": False},
        "failurePolicy": {
            "backoffLimit": 2,
            "rules": [
                {"action": "Fail", "onExitCodes": {"operator": "In", "values": [3]}},
                {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]},
            ],
        },
        "activeDeadlineSeconds": 86400,
        "ttlSecondsAfterFinished": 0,
        "checkpoint": {"volumeClaimName": "ckpt", "intervalSeconds": 600},
    },
    "status": {"anything": ["the operator wrote"]},
}


def changed(change: Change) -> dict[str, Any]:
    data = copy.deepcopy(FULL)
    change(data)
    return data


def errors(change: Change) -> dict[str, str]:
    with pytest.raises(ValidationError) as caught:
        HarmonyJob.model_validate(changed(change))
    return {".".join(map(str, each["loc"])): each["msg"] for each in caught.value.errors()}


def _sharing(data: dict[str, Any]) -> dict[str, Any]:
    sharing = data["spec"]["sharing"]
    assert isinstance(sharing, dict)
    return sharing


def test_every_field_of_the_contract_is_read() -> None:
    job = HarmonyJob.model_validate(FULL)
    assert job.name == "mlr-digits"
    assert job.spec.workers.least == job.spec.workers.most == 2
    assert job.spec.sharing.device_memory is not None
    assert job.spec.sharing.device_memory.footprint_bytes == 6 * 2**30
    assert job.spec.sharing.device_memory.minimum_bytes == 2 * 2**30
    assert job.spec.profile is not None
    hint = job.spec.profile.to_profile()
    assert (hint.iterations, hint.iteration_seconds) == (0, 0.201)
    assert job.spec.workers.template.container("worker").working_dir == "/work"
    assert [rule.action for rule in job.spec.failure_policy.rules] == ["Fail", "Ignore"]


def test_a_short_manifest_gets_the_documented_defaults() -> None:
    job = HarmonyJob.model_validate(
        {
            "apiVersion": "harmony.dev/v1alpha1",
            "kind": "HarmonyJob",
            "metadata": {"name": "short"},
            "spec": {"workers": {"template": {"spec": {"containers": [{"name": "worker"}]}}}},
        }
    )
    spec = job.spec
    assert (spec.workers.least, spec.workers.gpus_per_worker) == (1, 0)
    assert (spec.parameter_servers.replicas, spec.parameter_servers.template) == (1, None)
    assert (spec.sharing.policy, spec.sharing.max_slowdown_percent) == ("Shared", 100)
    assert (spec.completion.success, spec.completion.clean_servers) == ("AllWorkers", True)
    assert spec.failure_policy.backoff_limit == 6
    assert job.metadata.namespace == "default"


def test_a_job_survives_the_way_to_json_and_back() -> None:
    job = HarmonyJob.model_validate(FULL)
    assert HarmonyJob.model_validate_json(job.model_dump_json(by_alias=True)).spec == job.spec


@pytest.mark.parametrize(
    ("where", "change"),
    [
        ("spec.suspend", lambda d: d["spec"].update(suspend="false")),
        ("spec.iterations", lambda d: d["spec"].update(iterations="300")),
        ("spec.iterations", lambda d: d["spec"].update(iterations=True)),
        ("spec.workers.replicas", lambda d: d["spec"]["workers"].update(replicas=2.0)),
        ("spec.workers.replicas", lambda d: d["spec"]["workers"].update(replicas=0)),
        ("spec.workers.gpusPerWorker", lambda d: d["spec"]["workers"].update(gpusPerWorker=-1)),
        ("spec.sharing.policy", lambda d: d["spec"]["sharing"].update(policy="shared")),
        ("spec.sharing.maxSlowdown", lambda d: d["spec"]["sharing"].update(maxSlowdown=1)),
        ("spec.sharing.max_slowdown_percent", lambda d: _sharing(d).update(max_slowdown_percent=1)),
        ("spec.completion.success", lambda d: d["spec"]["completion"].update(success="Some")),
        (
            "spec.checkpoint.intervalSeconds",
            lambda d: d["spec"].update(checkpoint={"intervalSeconds": 0}),
        ),
        ("metadata.name", lambda d: d["metadata"].update(name="Digits")),
        ("metadata.name", lambda d: d["metadata"].update(name="3d")),
        ("metadata.name", lambda d: d["metadata"].update(name="a" * (LONGEST_JOB_NAME + 1))),
        ("metadata.name", lambda d: d["metadata"].pop("name")),
        ("metadata.label", lambda d: d["metadata"].update(label={})),
        ("kind", lambda d: d.update(kind="Job")),
        ("apiVersion", lambda d: d.update(apiVersion="harmony.dev/v1")),
        ("spec", lambda d: d.update(spec=None)),
        ("specs", lambda d: d.update(specs={})),
    ],
)
def test_a_wrong_value_is_an_error_at_its_field(where: str, change: Change) -> None:
    assert where in errors(change)


def _worker(data: dict[str, Any]) -> dict[str, Any]:
    container = data["spec"]["workers"]["template"]["spec"]["containers"][0]
    assert isinstance(container, dict)
    return container


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("comand", lambda d: _worker(d).update(comand=["x"])),
        ("working_dir", lambda d: _worker(d).update(working_dir="x")),
        ("command", lambda d: _worker(d).update(command="python train.py")),
        ("command.0", lambda d: _worker(d).update(command=[3])),
        ("env.0.value", lambda d: _worker(d).update(env=[{"name": "A", "value": 3}])),
        ("env.0.val", lambda d: _worker(d).update(env=[{"name": "A", "val": "3"}])),
        ("resources.limits.cpu", lambda d: _worker(d).update(resources={"limits": {"cpu": "a"}})),
    ],
)
def test_a_template_is_checked_down_to_its_containers(field: str, change: Change) -> None:
    assert f"spec.workers.template.spec.containers.0.{field}" in errors(change)


def test_a_field_that_no_pod_has_is_an_error() -> None:
    found = errors(lambda d: d["spec"]["workers"]["template"]["spec"].update(hostipc=True))
    assert "spec.workers.template.spec.hostipc" in found


def test_a_worker_template_needs_its_container() -> None:
    found = errors(lambda d: _worker(d).update(name="main"))
    assert "one container named 'worker'; it has: main, logs" in found["spec.workers.template"]


def test_a_server_template_needs_its_container() -> None:
    template = {"spec": {"containers": [{"name": "worker"}]}}
    found = errors(lambda d: d["spec"]["parameterServers"].update(template=template))
    assert "named 'server'" in found["spec.parameterServers.template"]


@pytest.mark.parametrize(
    ("where", "advice", "change"),
    [
        (
            "spec.sharing.deviceMemory",
            "lower minimum or raise footprint",
            lambda d: d["spec"]["sharing"]["deviceMemory"].update(minimum="6145Mi"),
        ),
        (
            "spec.workers",
            "not both",
            lambda d: d["spec"]["workers"].update(minReplicas=1, maxReplicas=2),
        ),
        (
            "spec.workers",
            "set both or neither",
            lambda d: d["spec"]["workers"].update(replicas=None, minReplicas=1),
        ),
        (
            "spec.workers",
            "lower minReplicas",
            lambda d: d["spec"]["workers"].update(replicas=None, minReplicas=3, maxReplicas=2),
        ),
        (
            "spec.profile",
            "takes no time",
            lambda d: d["spec"].update(
                profile={"computeMilliseconds": 0, "pullMilliseconds": 0, "pushMilliseconds": 0}
            ),
        ),
        (
            "spec.failurePolicy.rules.0",
            "give one",
            lambda d: d["spec"]["failurePolicy"].update(rules=[{"action": "Fail"}]),
        ),
    ],
)
def test_a_rule_over_several_fields_says_what_to_change(
    where: str, advice: str, change: Change
) -> None:
    assert advice in errors(change)[where]
