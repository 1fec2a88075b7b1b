"""Who looks again at what: as few as can be, and nobody too few."""

import asyncio
from typing import Any

import pytest

from harmony_operator.dispatch import Dispatcher
from harmony_operator.observed import ObjectKey


def job(name: str, **spec: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "worker", "image": "x"}]}}
    return {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "metadata": {"namespace": "team", "name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"workers": {"replicas": 1, "template": template}, **spec},
    }


def told_by(kind: Any, raw: dict[str, Any], *jobs: dict[str, Any]) -> tuple[set[ObjectKey], int]:
    """Return the jobs that are looked at because of an object, and how often is planned."""
    wakes: list[None] = []

    async def run() -> set[ObjectKey]:
        dispatcher = Dispatcher(lambda: wakes.append(None))
        for one in jobs:
            dispatcher.mirror.observe("HarmonyJob", one)
        found: set[ObjectKey] = set()

        async def take(key: ObjectKey) -> None:
            found.add(key)

        work = asyncio.create_task(dispatcher.jobs.work(take, 1))
        while len(found) < len(jobs):
            await asyncio.sleep(0)
        found.clear()
        wakes.clear()
        dispatcher.mirror.observe(kind, raw)
        dispatcher.jobs.add(ObjectKey("", "last"))
        while ObjectKey("", "last") not in found:
            await asyncio.sleep(0)
        work.cancel()
        return found - {ObjectKey("", "last")}

    return asyncio.run(run()), len(wakes)


def claim(name: str, namespace: str = "team") -> dict[str, Any]:
    metadata = {"namespace": namespace, "name": name, "uid": "c", "resourceVersion": "2"}
    return {"metadata": metadata, "spec": {"accessModes": ["ReadWriteOnce"]}}


JOBS = (
    job("plain"),
    job("named", checkpoint={"volumeClaimName": "models"}),
    job(
        "own",
        checkpoint={
            "volumeClaimTemplate": {
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "resources": {"requests": {"storage": "1Gi"}},
                }
            }
        },
    ),
)


def test_a_volume_claim_concerns_only_the_jobs_that_write_to_it_and_no_plan() -> None:
    assert told_by("PersistentVolumeClaim", claim("models"), *JOBS) == (
        {ObjectKey("team", "named")},
        0,
    )
    assert told_by("PersistentVolumeClaim", claim("own-server-0"), *JOBS) == (
        {ObjectKey("team", "own")},
        0,
    )
    assert told_by("PersistentVolumeClaim", claim("models", "others"), *JOBS) == (set(), 0)


def test_a_priority_class_concerns_every_job_and_the_plan() -> None:
    raw = {"metadata": {"name": "high", "uid": "p", "resourceVersion": "2"}, "value": 10}
    jobs, plans = told_by("PriorityClass", raw, *JOBS)
    assert len(jobs) == len(JOBS)
    assert plans


@pytest.mark.parametrize(("phase", "at_once"), [("Running", False), ("Failed", True)])
def test_one_look_is_for_all_pods_that_start_but_one_that_ends_is_looked_at_at_once(
    phase: str, at_once: bool
) -> None:
    labels = {"harmony.dev/role": "worker", "harmony.dev/job-name": "plain"}
    metadata = {"namespace": "team", "name": "p", "uid": "p", "resourceVersion": "2"}
    pod = {"metadata": {**metadata, "labels": labels}, "status": {"phase": phase}}
    jobs, plans = told_by("Pod", pod, *JOBS)
    assert jobs == ({ObjectKey("team", "plain")} if at_once else set())
    assert bool(plans) == at_once
