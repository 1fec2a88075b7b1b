"""What an API server refuses, in which words, and that the models refuse the same."""

import copy
import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from job_specs import (
    BROKEN_RULES,
    FULL,
    GOOD,
    IMMUTABLE,
    MINIMAL,
    MUTABLE,
    OUT_OF_BOUNDS,
    Change,
    changed,
    setting,
)
from pydantic import ValidationError

from harmony_api.job import HarmonyJob

Kubectl = Callable[..., str]

EXAMPLES = Path(__file__).parents[3] / "worker_image" / "examples"


@pytest.fixture(scope="module")
def stored(kubectl: Kubectl) -> Iterator[Kubectl]:
    """A kubectl in a namespace in which the full job is stored."""
    name = f"crds-{uuid4().hex[:8]}"
    kubectl("create", "namespace", name)

    def in_namespace(*arguments: str, **options: Any) -> str:
        return kubectl("-n", name, *arguments, **options)

    in_namespace("create", "-f", "-", input=json.dumps(FULL))
    yield in_namespace
    kubectl("delete", "namespace", name, "--wait=false")


def create(kubectl: Kubectl, job: dict[str, Any], *options: str) -> dict[str, Any]:
    """Try out creating a job; return it as it would be stored."""
    text = kubectl(
        "create", "--dry-run=server", "-o", "json", *options, "-f", "-", input=json.dumps(job)
    )
    answer: dict[str, Any] = json.loads(text)
    return answer


def refusal(action: Callable[[], object]) -> str:
    """Return what the user reads when an action is refused."""
    with pytest.raises(subprocess.CalledProcessError) as caught:
        action()
    return str(caught.value.stderr)


def replaced(kubectl: Kubectl, change: Change, *, suspended: bool = False) -> None:
    """Try out a change of the stored job."""
    job = json.loads(kubectl("get", "hj", FULL["metadata"]["name"], "-o", "json"))
    if suspended:
        job["spec"]["suspend"] = True
        kubectl("replace", "-f", "-", input=json.dumps(job))
    change(job)
    del job["metadata"]["resourceVersion"]
    kubectl("replace", "--dry-run=server", "-f", "-", input=json.dumps(job))


@pytest.mark.parametrize(
    ("change", "message"),
    [case[1:] for case in BROKEN_RULES],
    ids=[case[0] for case in BROKEN_RULES],
)
def test_a_broken_rule_is_told_and_the_models_break_it_too(
    kubectl: Kubectl, change: Change, message: str
) -> None:
    job = changed(change)
    assert message in refusal(lambda: create(kubectl, job))
    with pytest.raises(ValidationError):
        HarmonyJob.model_validate(job)


@pytest.mark.parametrize(
    ("field", "value", "message"), OUT_OF_BOUNDS, ids=[case[0] for case in OUT_OF_BOUNDS]
)
def test_a_value_out_of_bounds_is_refused_and_the_models_refuse_it_too(
    kubectl: Kubectl, field: str, value: Any, message: str
) -> None:
    job = changed(setting(field, value))
    assert message in refusal(lambda: create(kubectl, job))
    with pytest.raises(ValidationError):
        HarmonyJob.model_validate(job)


@pytest.mark.parametrize("change", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_what_is_allowed_is_stored_as_it_was_written_and_the_models_read_it(
    kubectl: Kubectl, change: Change
) -> None:
    job = changed(change)
    wanted = HarmonyJob.model_validate(job).spec
    assert HarmonyJob.model_validate(create(kubectl, job)).spec == wanted


def test_the_defaults_of_the_api_server_are_those_of_the_models(kubectl: Kubectl) -> None:
    spec = create(kubectl, MINIMAL)["spec"]
    assert spec.pop("workers") == {**MINIMAL["spec"]["workers"], "gpusPerWorker": 0}
    assert spec == {
        "suspend": False,
        "parameterServers": {"replicas": 1},
        "sharing": {"policy": "Shared", "maxSlowdownPercent": 100},
        "completion": {"success": "AllWorkers", "cleanServers": True},
        "failurePolicy": {"backoffLimit": 6},
    }
    assert (
        HarmonyJob.from_cluster(create(kubectl, MINIMAL)).spec
        == HarmonyJob.model_validate(MINIMAL).spec
    )


def test_an_unknown_field_is_a_typo_and_pruned_where_nobody_asks(kubectl: Kubectl) -> None:
    job = changed(setting("spec.sharing.maxSlowDownPercent", 10))
    assert 'unknown field "spec.sharing.maxSlowDownPercent"' in refusal(
        lambda: create(kubectl, job)
    )
    pruned = create(kubectl, job, "--validate=ignore")["spec"]["sharing"]
    assert pruned == FULL["spec"]["sharing"]


def test_whatever_a_pod_template_holds_is_kept(kubectl: Kubectl) -> None:
    job = changed(setting("spec.workers.template.spec.brandNew", [{"field": 1}]))
    assert create(kubectl, job)["spec"]["workers"]["template"] == job["spec"]["workers"]["template"]


@pytest.mark.parametrize(
    ("field", "value", "message"), IMMUTABLE, ids=[f"{case[0]}={case[1]}" for case in IMMUTABLE]
)
def test_what_the_pods_were_started_with_stays(
    stored: Kubectl, field: str, value: Any, message: str
) -> None:
    assert message in refusal(lambda: replaced(stored, setting(field, value)))


@pytest.mark.parametrize(
    ("field", "value"), MUTABLE, ids=[f"{case[0]}={case[1]}" for case in MUTABLE]
)
def test_what_only_decides_may_change(stored: Kubectl, field: str, value: Any) -> None:
    replaced(stored, setting(field, value))


def test_templates_may_change_while_the_job_is_suspended_and_when_it_resumes(
    kubectl: Kubectl, namespace: str
) -> None:
    def there(*arguments: str, **options: Any) -> str:
        return kubectl("-n", namespace, *arguments, **options)

    there("create", "-f", "-", input=json.dumps(FULL))

    def resume_elsewhere(job: dict[str, Any]) -> None:
        setting("spec.suspend", False)(job)
        setting("spec.workers.template.spec.nodeSelector", {"pool": "a"})(job)
        setting("spec.parameterServers.template", None)(job)

    replaced(there, resume_elsewhere, suspended=True)
    more_workers = setting("spec.workers.replicas", 3)
    assert "replicas cannot be changed" in refusal(lambda: replaced(there, more_workers))


@pytest.mark.parametrize("example", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.name)
def test_every_example_can_be_applied(kubectl: Kubectl, example: Path) -> None:
    applied = kubectl("apply", "--dry-run=server", "--validate=strict", "-f", str(example))
    assert "created (server dry run)" in applied


def test_a_write_of_the_spec_leaves_the_status_and_the_other_way_round(
    kubectl: Kubectl, namespace: str
) -> None:
    job = copy.deepcopy(FULL) | {"status": {"restarts": 7}}
    kubectl("-n", namespace, "create", "-f", "-", input=json.dumps(job))
    patch = json.dumps({"status": {"restarts": 3}, "spec": {"suspend": True}})
    kubectl(
        *("-n", namespace, "patch", "hj", "mlr-digits", "--type=merge"),
        *("--subresource=status", "-p", patch),
    )
    now = json.loads(kubectl("-n", namespace, "get", "hj", "mlr-digits", "-o", "json"))
    assert now["status"]["restarts"] == 3
    assert now["spec"]["suspend"] is False
