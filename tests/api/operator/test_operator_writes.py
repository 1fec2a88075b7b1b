"""Writes that meet another object than the one that was decided upon."""

import asyncio
from collections.abc import Awaitable, Callable

import kopf
import pytest
from operator_runs import Cluster, job

from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.actions import Actions, Delete
from harmony_operator.api_client import ApiClient
from harmony_operator.applying import Applier
from harmony_operator.event_posting import EventPoster
from harmony_operator.login import login
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey, ObservedJob

Write = Callable[[Applier, ObservedJob], Awaitable[None]]


async def write_status(applier: Applier, seen: ObservedJob) -> None:
    await applier.conclude(seen, Actions(status=HarmonyJobStatus(state="Failed")), at_once=True)


async def delete(applier: Applier, seen: ObservedJob) -> None:
    await applier.carry_out((Delete(kind="HarmonyJob", key=seen.key, uid=seen.uid),))


@pytest.mark.parametrize("write", [write_status, delete])
def test_a_write_about_a_job_that_was_made_anew_leaves_the_new_one_alone(
    here: Cluster, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(here.server.kubeconfig))
    key = ObjectKey(here.namespace, "mlr")

    async def run() -> None:
        mirror = Mirror(lambda _: None)
        client = ApiClient(lambda: login(kopf.OperatorSettings()))
        try:
            here.apply(job())
            mirror.observe("HarmonyJob", await client.get("HarmonyJob", key))
            here.kubectl("delete", "harmonyjob", "mlr")
            here.apply(job())
            await write(Applier(client, mirror, EventPoster(client, "test")), mirror.jobs[key])
            assert key not in mirror.jobs
            new = await client.get("HarmonyJob", key)
            mirror.observe("HarmonyJob", new)
            assert mirror.jobs[key].uid == new["metadata"]["uid"]
            assert "status" not in new
        finally:
            await client.close()

    asyncio.run(run())
