"""What the second guard over the watches does: it forgets, and it notices silence."""

import asyncio
from collections.abc import Callable

import kopf
import pytest
from operator_runs import Cluster, job

from harmony_operator import resync
from harmony_operator.api_client import ApiClient
from harmony_operator.login import login
from harmony_operator.mirror import Mirror
from harmony_operator.watching import KINDS


def keep_in_sync(here: Cluster, act: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> None:
    """Fill a mirror that no watch feeds, let something happen, and keep it in sync."""
    monkeypatch.setenv("KUBECONFIG", str(here.server.kubeconfig))
    monkeypatch.setattr(resync, "PERIOD_SECONDS", 0.2)
    monkeypatch.setattr(resync, "STALLED_SECONDS", 0.5)

    async def run() -> None:
        mirror = Mirror(lambda _: None)
        client = ApiClient(lambda: login(kopf.OperatorSettings()))
        try:
            for kind in KINDS:
                for one in (await client.list_objects(kind))["items"]:
                    mirror.observe(kind, one)
            await resync.first_sync(client, mirror)
            await asyncio.to_thread(act)
            await resync.keep_in_sync(client, mirror)
        finally:
            await client.close()

    asyncio.run(asyncio.wait_for(run(), 60))


def test_what_no_watch_brings_ends_the_operator(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(resync.WatchStoppedError, match=f"HarmonyJob.*{here.namespace}"):
        keep_in_sync(here, lambda: here.apply(job()), monkeypatch)


def test_a_change_that_no_watch_brings_ends_the_operator(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.apply(job())
    with pytest.raises(resync.WatchStoppedError, match="HarmonyJob"):
        keep_in_sync(here, lambda: here.patch("hj/mlr", {"spec": {"suspend": True}}), monkeypatch)
