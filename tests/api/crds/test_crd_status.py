"""What the operator writes is kept whole, and how kubectl shows it."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from job_specs import FULL, MINIMAL

from cluster.waiting import until
from harmony_api.conditions import Condition, ConditionType, RunningReason
from harmony_api.harmony_group import (
    BoundSlot,
    GroupColumns,
    GroupMember,
    GroupMetadata,
    GroupSlot,
    HarmonyGroup,
    HarmonyGroupSpec,
    HarmonyGroupStatus,
)
from harmony_api.job import HarmonyJob
from harmony_api.job_status import (
    AssignedGroup,
    Columns,
    HarmonyJobStatus,
    Progress,
    Replicas,
    ServerReplicas,
    SharingCost,
    WorkerReplicas,
)
from harmony_api.profile import JobProfile
from harmony_crds.definitions import harmony_jobs

Kubectl = Callable[..., str]

NOON = "2030-01-01T12:00:00Z"
CONDITION = Condition.model_validate(
    {
        "type": ConditionType.RUNNING,
        "status": "True",
        "observedGeneration": 2,
        "lastTransitionTime": NOON,
        "reason": RunningReason.WORKERS_RUNNING,
        "message": "2 workers and 1 server run",
    }
)
JOB_STATUS = HarmonyJobStatus.model_validate(
    {
        "observedGeneration": 2,
        "conditions": [CONDITION],
        "state": "Running",
        "group": AssignedGroup(name="g-3f2a", namespace="team", slots=2),
        "replicas": Replicas(
            servers=ServerReplicas(desired=1, ready=1),
            workers=WorkerReplicas(desired=2, ready=2, succeeded=0, failed=0),
        ),
        "progress": Progress.model_validate({"iteration": 4200, "total": 10000, "time": NOON}),
        "sharing": SharingCost(slowdown_percent=37, spilled_bytes=2**30),
        "columns": Columns(
            workers="2/2",
            progress="4200/10000",
            slowdown="37%",
            compute="120ms",
            network="84ms",
            spill="1Gi",
        ),
        "profiles": [
            JobProfile(
                device_kind="h200",
                iterations=9,
                compute_microseconds=120_000,
                pull_microseconds=40_000,
                push_microseconds=41_000,
                update_microseconds=3_000,
                pull_bytes=5,
                push_bytes=6,
            )
        ],
        "separatedFrom": ["0d7c"],
        "preemptedBy": "team/urgent",
        "succeededWorkers": [1],
        "restarts": 3,
        "lastCountedPodUid": "1e8d",
        "lastRestartTime": NOON,
        "startTime": NOON,
        "completionTime": NOON,
    }
)
GROUP = HarmonyGroup(
    metadata=GroupMetadata(name="g-3f2a", namespace="default"),
    spec=HarmonyGroupSpec(
        generation=4,
        network="FullDuplex",
        slots=(
            GroupSlot(name="node-a-0", node="node-a", gpus=1, device_kind="h200"),
            GroupSlot(name="node-b-0", node="node-b", gpus=1),
        ),
        members=(
            GroupMember(
                job="mlr-digits",
                namespace="team",
                job_uid="0d7c",
                slot_indices=(0, 1),
                order=0,
                rounds=2,
                device_memory_bytes=2**31,
                reason="alone",
            ),
        ),
    ),
)
GROUP_STATUS = HarmonyGroupStatus(
    predicted_cycle_microseconds=200_000,
    measured_cycle_microseconds=210_000,
    correction_percent=105,
    compute_utilisation_percent=90,
    network_utilisation_percent=70,
    slots=(
        BoundSlot(
            name="node-a-0", devices=("gpu.example.com/node-a/gpu-0",), claim_name="g-3f2a-0"
        ),
        BoundSlot(name="node-b-0", devices=("GPU-5",), reservation_pod="g-3f2a-1"),
    ),
    conditions=(CONDITION,),
    columns=GroupColumns(
        members="mlr-digits", slots="2 x 1 GPU", predicted="200ms", measured="210ms"
    ),
)


def write_status(kubectl: Kubectl, resource: str, name: str, status: dict[str, Any]) -> None:
    kubectl(
        *("patch", resource, name, "--type=merge", "--subresource=status"),
        *("-p", json.dumps({"status": status})),
    )


@pytest.fixture
def there(kubectl: Kubectl, namespace: str) -> Kubectl:
    """A kubectl in the test's namespace, which has the job and the group with their status."""

    def in_namespace(*arguments: str, **options: Any) -> str:
        return kubectl("-n", namespace, *arguments, **options)

    group = {
        "apiVersion": GROUP.api_version,
        "kind": GROUP.kind,
        "metadata": {"name": GROUP.metadata.name},
        "spec": GROUP.spec.to_dict(),
    }
    in_namespace("create", "--validate=strict", "-f", "-", input=json.dumps(FULL))
    in_namespace("create", "--validate=strict", "-f", "-", input=json.dumps(group))
    write_status(in_namespace, "hj", "mlr-digits", JOB_STATUS.to_dict())
    write_status(in_namespace, "hg", "g-3f2a", GROUP_STATUS.to_dict())
    return in_namespace


def read(kubectl: Kubectl, resource: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(kubectl("get", resource, name, "-o", "json"))
    return found


def cells(table: str) -> list[list[str]]:
    return [line.split() for line in table.splitlines()]


def test_every_field_that_the_operator_writes_is_kept(there: Kubectl) -> None:
    job = read(there, "harmonyjob", "mlr-digits")
    assert job["status"] == JOB_STATUS.to_dict()
    assert HarmonyJobStatus.model_validate(job["status"]) == JOB_STATUS
    group = read(there, "harmonygroup", "g-3f2a")
    assert group["spec"] == GROUP.spec.to_dict()
    assert group["status"] == GROUP_STATUS.to_dict()
    assert HarmonyGroup.model_validate(group).spec == GROUP.spec


def test_kubectl_get_shows_what_one_wants_to_know(there: Kubectl) -> None:
    header, row = cells(there("get", "hj"))
    assert header == ["NAME", "STATE", "GROUP", "WORKERS", "PROGRESS", "RESTARTS", "AGE"]
    assert row[:-1] == ["mlr-digits", "Running", "g-3f2a", "2/2", "4200/10000", "3"]
    header, row = cells(there("get", "hj", "-o", "wide"))
    assert header[7:] == ["SLOWDOWN", "COMP", "NET", "SPILL"]
    assert row[7:] == ["37%", "120ms", "84ms", "1Gi"]


def test_kubectl_get_shows_who_shares_what(there: Kubectl) -> None:
    header, row = cells(there("get", "hg", "-o", "wide"))
    assert header == [
        *("NAME", "MEMBERS", "SLOTS", "NODE", "PREDICTED", "MEASURED", "AGE"),
        *("PLAN", "COMP", "NET"),
    ]
    assert " ".join(row).startswith("g-3f2a mlr-digits 2 x 1 GPU node-a 200ms 210ms ")
    assert row[-3:] == ["4", "90", "70"]


def test_a_job_that_no_operator_has_seen_can_be_shown(kubectl: Kubectl, namespace: str) -> None:
    kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(MINIMAL))
    assert "small" in kubectl("-n", namespace, "get", "hj", "-o", "wide")
    kubectl("-n", namespace, "describe", "hj", "small")


def test_jobs_are_found_by_state_and_group_and_with_all_that_is_harmonys(there: Kubectl) -> None:
    assert "mlr-digits" in there("get", "hj", "--field-selector=status.state=Running")
    assert "mlr-digits" in there("get", "hj", "--field-selector=status.group.name=g-3f2a")
    assert "mlr-digits" not in there("get", "hj", "--field-selector=status.state=Failed")
    everything = there("get", "harmony", "-o", "name")
    assert everything.split() == [
        "harmonygroup.harmony.dev/g-3f2a",
        "harmonyjob.harmony.dev/mlr-digits",
    ]


def test_every_field_is_explained(kubectl: Kubectl) -> None:
    def explanation() -> str:
        try:
            return kubectl("explain", "hj.spec.sharing.maxSlowdownPercent")
        except subprocess.CalledProcessError:
            return ""

    text = until(explanation, seconds=30, what="the API server describes the new resource")
    assert "that sharing may cost it" in text


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("slots", [{"name": "a", "node": "n"}, {"name": "a", "node": "m"}], "Duplicate value"),
        ("slots", [{"name": "a", "node": "n"}], "slotIndices are indices into slots"),
        ("generation", 3, "the generation of a plan never goes down"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(
    there: Kubectl, field: str, value: Any, message: str
) -> None:
    patch = json.dumps({"spec": {field: value}})
    with pytest.raises(subprocess.CalledProcessError) as caught:
        there("patch", "hg", "g-3f2a", "--type=merge", "--dry-run=server", "-p", patch)
    assert message in caught.value.stderr


def test_two_conditions_of_one_type_are_refused(there: Kubectl) -> None:
    status = {"conditions": [CONDITION.to_dict()] * 2}
    with pytest.raises(subprocess.CalledProcessError) as caught:
        write_status(there, "hj", "mlr-digits", status)
    assert "Duplicate value" in caught.value.stderr


def test_a_job_stored_before_a_field_existed_is_read_with_its_default(
    kubectl: Kubectl, namespace: str
) -> None:
    now = harmony_jobs()
    now["spec"]["group"] = "aged.harmony.dev"
    # Names of its own, since kubectl remembers for a while what it could ask for by a name.
    now["metadata"]["name"] = aged = "agedjobs.aged.harmony.dev"
    now["spec"]["names"] = {
        "kind": "AgedJob",
        "listKind": "AgedJobList",
        "plural": "agedjobs",
        "singular": "agedjob",
    }
    before = json.loads(json.dumps(now))
    spec = before["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"] = {name: spec["properties"][name] for name in ("workers", "suspend")}
    del spec["x-kubernetes-validations"]
    job = {**MINIMAL, "apiVersion": "aged.harmony.dev/v1alpha1", "kind": "AgedJob"}
    kubectl("create", "-f", "-", input=json.dumps(before))
    try:
        kubectl("wait", "--for=condition=Established", "crd", aged)
        kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(job))
        kubectl("replace", "-f", "-", input=json.dumps(now))
        found = read_until_defaulted(kubectl, namespace, aged)
        assert found["spec"]["failurePolicy"] == {"backoffLimit": 6}
        found |= {"apiVersion": MINIMAL["apiVersion"], "kind": MINIMAL["kind"]}
        assert HarmonyJob.from_cluster(found).spec == HarmonyJob.model_validate(MINIMAL).spec
        suspend = json.dumps({"spec": {"suspend": True}})
        kubectl("-n", namespace, "patch", aged, "small", "--type=merge", "-p", suspend)
    finally:
        kubectl("delete", "crd", aged)


def read_until_defaulted(kubectl: Kubectl, namespace: str, resource: str) -> dict[str, Any]:
    found: dict[str, Any] = {}

    def defaulted() -> bool:
        found.update(read(lambda *a: kubectl("-n", namespace, *a), resource, "small"))
        return "sharing" in found["spec"]

    until(defaulted, seconds=30, what="the API server uses the new definition")
    return found


def test_the_definitions_can_be_applied_the_plain_way(kubectl: Kubectl, crds: list[Path]) -> None:
    for definition in crds:
        kubectl("apply", "--dry-run=server", "-f", str(definition))
