"""Answers of the API server that look like success, or like an end, and are not."""

import asyncio

import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from harmony_operator.actions import Delete, Try
from harmony_operator.api_client import ApiClient
from harmony_operator.applying import Applier, StepError
from harmony_operator.event_posting import EventPoster
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey

KEY = ObjectKey("team", "mlr-worker-0")
POD = {
    "kind": "Pod",
    "metadata": {
        "name": KEY.name,
        "namespace": KEY.namespace,
        "uid": "uid",
        "resourceVersion": "1",
        "labels": {"harmony.dev/role": "worker", "harmony.dev/job-name": "mlr"},
    },
}


def test_a_conflict_that_is_not_about_the_uid_is_no_deletion() -> None:
    async def refuse(_: web.Request) -> web.Response:
        status = {"kind": "Status", "reason": "Conflict", "message": "try again later"}
        return web.json_response(status, status=409)

    async def show(_: web.Request) -> web.Response:
        return web.json_response(POD)

    async def run() -> None:
        app = web.Application()
        path = f"/api/v1/namespaces/{KEY.namespace}/pods/{KEY.name}"
        app.add_routes([web.delete(path, refuse), web.get(path, show)])
        async with TestServer(app, host="127.0.0.1") as server:
            info = kopf.ConnectionInfo(server=str(server.make_url("/")))
            client = ApiClient(lambda: info)
            mirror = Mirror(lambda _: None)
            mirror.observe("Pod", POD)
            applier = Applier(client, mirror, EventPoster(client, "test"))
            with pytest.raises(StepError, match="try again later"):
                await applier.carry_out((Delete(kind="Pod", key=KEY, uid="uid"),))
            await client.close()
            assert KEY in mirror.pods

    asyncio.run(run())


def test_a_webhook_that_cannot_rehearse_does_not_make_a_template_wrong() -> None:
    async def refuse(request: web.Request) -> web.Response:
        assert request.query["dryRun"] == "All"
        message = 'admission webhook "audit.example.com" does not support dry run'
        status = {"kind": "Status", "reason": "BadRequest", "message": message}
        return web.json_response(status, status=400)

    async def run() -> None:
        app = web.Application()
        app.add_routes([web.post(f"/api/v1/namespaces/{KEY.namespace}/pods", refuse)])
        async with TestServer(app, host="127.0.0.1") as server:
            info = kopf.ConnectionInfo(server=str(server.make_url("/")))
            client = ApiClient(lambda: info)
            mirror = Mirror(lambda _: None)
            applier = Applier(client, mirror, EventPoster(client, "test"))
            await applier.carry_out((Try(POD, "worker of a spec"),))
            await client.close()
            assert not mirror.pods

    asyncio.run(run())
