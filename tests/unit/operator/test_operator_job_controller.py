"""A pass over a job that fails for a reason that nobody foresaw: said in its status, once."""

import asyncio
import logging
from typing import Any

import pytest

from harmony_operator import job_controller
from harmony_operator.actions import Actions
from harmony_operator.applying import Applier
from harmony_operator.gpu_binding.none import NoBinding
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey, ObservedJob
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.settings import OperatorSettings
from harmony_operator.work_queue import Retry

KEY = ObjectKey("team", "mlr")
JOB: dict[str, Any] = {
    "metadata": {"namespace": "team", "name": "mlr", "uid": "u", "resourceVersion": "1"},
    "spec": {"workers": {"template": {"spec": {"containers": [{"name": "worker", "image": "i"}]}}}},
}


class StatusOnly(Applier):
    """Writes statuses straight into the mirror."""

    def __init__(self, mirror: Mirror) -> None:
        self.mirror = mirror

    async def conclude(self, job: ObservedJob, actions: Actions, *, at_once: bool = False) -> None:
        assert at_once
        assert actions.status is not None
        version = int(JOB["metadata"]["resourceVersion"]) + 1
        metadata = JOB["metadata"] | {"resourceVersion": str(version)}
        self.mirror.observe(
            "HarmonyJob", JOB | {"metadata": metadata, "status": actions.status.to_dict()}
        )


def test_an_unforeseen_error_is_logged_once_and_stands_in_the_jobs_condition(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> Actions:
        raise KeyError("name")

    monkeypatch.setattr(job_controller, "reconcile", fail)
    mirror = Mirror(lambda _: None)
    mirror.observe("HarmonyJob", JOB)
    settings = OperatorSettings(sidecar_image="s", server_image="s")
    controller = job_controller.JobController(
        mirror, StatusOnly(mirror), NoBinding(), settings, PlanMemory
    )
    for _ in range(2):
        with pytest.raises(Retry, match="KeyError: 'name'"):
            asyncio.run(controller.look_at(KEY))
    (condition,) = mirror.jobs[KEY].status.conditions
    assert (condition.type, condition.status, condition.reason) == (
        "Running",
        "Unknown",
        "InternalError",
    )
    assert "KeyError: 'name'" in condition.message
    assert [record.levelno for record in caplog.records] == [logging.ERROR]
