"""Parsing: what a real object says, and that no object can break it."""

import copy
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from harmony_operator import parsing
from harmony_operator.mirror import Mirror

JOB: dict[str, Any] = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {
        "name": "mlr",
        "namespace": "team",
        "uid": "u1",
        "generation": 3,
        "resourceVersion": "10",
        "creationTimestamp": "2026-11-30T10:00:00Z",
        "managedFields": [{"manager": "kubectl"}],
    },
    "spec": {
        "workers": {
            "replicas": 2,
            "template": {"spec": {"containers": [{"name": "worker", "image": "x"}]}},
        }
    },
    "status": {
        "restarts": 2,
        "conditions": [
            {
                "type": "Valid",
                "status": "True",
                "reason": "Accepted",
                "lastTransitionTime": "2026-11-30T10:00:01Z",
            }
        ],
    },
}
POD: dict[str, Any] = {
    "metadata": {
        "name": "mlr-worker-1",
        "namespace": "team",
        "uid": "u2",
        "resourceVersion": "12",
        "creationTimestamp": "2026-11-30T10:00:00Z",
        "deletionTimestamp": "2026-11-30T10:10:00Z",
        "labels": {
            "harmony.dev/role": "worker",
            "harmony.dev/job-name": "mlr",
            "harmony.dev/job-uid": "u1",
            "harmony.dev/index": "1",
            "harmony.dev/group": "g-1",
        },
        "annotations": {"harmony.dev/slot": "n1/cpu-0", "harmony.dev/node-plan": "{}"},
    },
    "spec": {"nodeName": "n1"},
    "status": {
        "phase": "Failed",
        "podIP": "10.0.0.9",
        "conditions": [
            {"type": "Ready", "status": "False"},
            {"type": "DisruptionTarget", "status": "True"},
        ],
        "containerStatuses": [
            {
                "name": "worker",
                "state": {
                    "terminated": {
                        "exitCode": 137,
                        "reason": "OOMKilled",
                        "startedAt": "2026-11-30T10:01:00Z",
                        "finishedAt": "2026-11-30T10:09:00Z",
                    }
                },
            },
            {"name": "logger", "state": {"terminated": {"exitCode": 3}}},
        ],
        "initContainerStatuses": [
            {"name": "harmony-sidecar", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
        ],
    },
}


def test_a_job_is_read_with_its_status() -> None:
    job = parsing.parse_job(JOB)
    assert job.key == ("team", "mlr")
    assert job.generation == 3
    assert job.job is not None
    assert job.job.spec.workers.least == 2
    assert job.status.restarts == 2
    assert job.errors == ()


def test_each_error_of_a_spec_names_its_field() -> None:
    raw = copy.deepcopy(JOB)
    raw["spec"]["workers"]["minReplicas"] = 2
    raw["spec"]["workers"]["template"]["spec"]["containers"][0]["comand"] = ["x"]
    job = parsing.parse_job(raw)
    assert job.job is None
    assert any(error.startswith("spec.workers.template.spec.containers[0]") for error in job.errors)


def test_a_status_field_from_another_version_is_left_out_and_the_rest_is_kept() -> None:
    raw = copy.deepcopy(JOB)
    raw["status"]["state"] = "Dreaming"
    raw["status"]["unheardOf"] = 1
    job = parsing.parse_job(raw)
    assert job.status.restarts == 2
    assert job.status.state is None


def test_a_pod_is_read_by_its_main_container_alone() -> None:
    pod = parsing.parse_pod(POD)
    assert pod is not None
    assert (pod.job, pod.role, pod.index, pod.group) == ("mlr", "worker", 1, "g-1")
    assert pod.termination is not None
    assert (pod.termination.exit_code, pod.termination.reason) == (137, "OOMKilled")
    assert pod.disrupted
    assert pod.waiting_reason == "ImagePullBackOff"
    assert pod.deleting_since_seconds is not None
    assert pod.finished


def test_a_claim_lists_its_devices_in_the_order_of_its_requests() -> None:
    results = [
        {"request": f"gpu-{number:02}", "driver": "d", "pool": "n1", "device": f"gpu-{number}"}
        for number in (1, 0)
    ]
    claim = parsing.parse_claim(
        {
            "metadata": {"name": "g-1-0", "namespace": "team"},
            "status": {"allocation": {"devices": {"results": results}}},
        }
    )
    assert claim.devices == ("d/n1/gpu-0", "d/n1/gpu-1")


def test_a_cordoned_or_tainted_node_takes_no_new_pods() -> None:
    node = {
        "metadata": {"name": "n1"},
        "status": {
            "conditions": [{"type": "Ready", "status": "True"}],
            "allocatable": {"cpu": "3920m", "memory": "1Gi", "nvidia.com/gpu": "2"},
        },
    }
    fine = parsing.parse_node(node)
    assert fine.ready
    assert fine.schedulable
    assert fine.allocatable == {"cpu": 3, "memory": 2**30, "nvidia.com/gpu": 2}
    assert not parsing.parse_node({**node, "spec": {"unschedulable": True}}).schedulable
    taints = [{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "PreferNoSchedule"}]
    tainted = parsing.parse_node({**node, "spec": {"taints": taints}})
    assert [str(taint) for taint in tainted.taints] == ["k:NoExecute"]


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in an object below metadata.name and the like."""
    inner = (
        value.items()
        if isinstance(value, dict)
        else enumerate(value)
        if isinstance(value, list)
        else ()
    )
    return [here, *(path for key, one in inner for path in paths(one, (*here, key)))]


NEEDED = [("metadata",), ("metadata", "name"), ("metadata", "namespace")]


def _a_field(path: tuple[Any, ...]) -> bool:
    return isinstance(path[-1], str) and path not in NEEDED


@settings(max_examples=300)
@given(data=st.data(), raw=st.sampled_from([JOB, POD]))
def test_an_object_that_lacks_any_field_is_still_taken(data: st.DataObject, raw: Any) -> None:
    broken = copy.deepcopy(raw)
    for _ in range(data.draw(st.integers(1, 4))):
        there = [path for path in paths(broken) if path and _a_field(path)]
        path = data.draw(st.sampled_from(there))
        at = broken
        for part in path[:-1]:
            at = at[part]
        if data.draw(st.booleans()):
            del at[path[-1]]
        elif path[-1] not in ("resourceVersion",):
            at[path[-1]] = None
    kind = "HarmonyJob" if raw is JOB else "Pod"
    Mirror(lambda _: None).observe(kind, broken)
