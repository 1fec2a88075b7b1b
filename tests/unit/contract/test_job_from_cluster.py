"""Objects written by an older or a newer version are read, and never crash a reader."""

import contextlib
import copy
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from harmony_api import conditions
from harmony_api.conditions import Condition
from harmony_api.harmony_group import HarmonyGroupSpec
from harmony_api.job import HarmonyJob
from harmony_api.job_status import HarmonyJobStatus

JOB: dict[str, Any] = {
    "apiVersion": "harmony.dev/v1alpha1",
    "kind": "HarmonyJob",
    "metadata": {"name": "job"},
    "spec": {"workers": {"template": {"spec": {"containers": [{"name": "worker"}]}}}},
}


def test_a_field_of_a_newer_definition_is_left_out() -> None:
    newer = copy.deepcopy(JOB)
    newer["spec"]["newField"] = {"a": 1}
    newer["spec"]["workers"]["newField"] = 1
    newer["metadata"]["newField"] = 1
    assert HarmonyJob.from_cluster(newer) == HarmonyJob.model_validate(JOB)


def test_a_typo_in_a_pod_template_is_told() -> None:
    broken = copy.deepcopy(JOB)
    broken["spec"]["workers"]["template"]["spec"]["containers"][0]["comand"] = ["x"]
    with pytest.raises(ValidationError, match="comand"):
        HarmonyJob.from_cluster(broken)


def test_a_broken_rule_is_told_in_a_job_from_a_cluster_too() -> None:
    broken = copy.deepcopy(JOB)
    broken["spec"]["workers"]["minReplicas"] = 1
    with pytest.raises(ValidationError, match="set both or neither"):
        HarmonyJob.from_cluster(broken)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=9,
)


@given(
    path=st.sampled_from(
        [
            ("spec",),
            ("spec", "workers", "template"),
            ("spec", "workers", "template", "spec", "containers", 0, "resources"),
            ("spec", "sharing", "deviceMemory"),
            ("spec", "sharing", "store", "capacity"),
            ("spec", "failurePolicy", "rules"),
            ("spec", "checkpoint", "volumeClaimTemplate"),
        ]
    ),
    value=_JSON,
)
def test_whatever_stands_in_a_spec_is_read_or_refused(path: tuple[Any, ...], value: Any) -> None:
    job = copy.deepcopy(JOB)
    at: Any = job
    for part in path[:-1]:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    at[path[-1]] = value
    with contextlib.suppress(ValidationError):
        HarmonyJob.from_cluster(job)


def test_an_empty_status_has_nothing_in_it_and_needs_nothing() -> None:
    assert HarmonyJobStatus.model_validate({}) == HarmonyJobStatus()
    assert HarmonyJobStatus.model_validate({"newField": 1}) == HarmonyJobStatus()


def test_a_plan_of_another_version_is_read() -> None:
    plan = {"generation": 1, "slots": [{"name": "a", "node": "n", "newField": 1}]}
    assert HarmonyGroupSpec.model_validate(plan).slots[0].gpus == 0


@given(st.datetimes(min_value=datetime(1970, 1, 2), timezones=st.timezones()))
def test_times_are_written_as_kubernetes_does_and_read_back(time: datetime) -> None:
    status = HarmonyJobStatus(start_time=time)
    written = status.to_dict()["startTime"]
    assert len(written) == len("2030-01-01T00:00:00Z")
    assert HarmonyJobStatus.model_validate(status.to_dict()) == status
    assert status.start_time == time.astimezone(UTC).replace(microsecond=0)


@pytest.mark.parametrize("condition", conditions.ConditionType)
def test_every_reason_of_a_condition_can_be_written_and_is_explained(
    condition: conditions.ConditionType,
) -> None:
    assert condition.meaning.endswith(".")
    for reason in conditions.REASONS[condition]:
        assert reason.meaning.endswith(".")
        written = Condition(
            type=condition,
            status="True",
            last_transition_time=datetime(2030, 1, 1, tzinfo=UTC),
            reason=reason,
        ).to_dict()
        assert written["reason"] == reason.value
