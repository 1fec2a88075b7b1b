"""The client of the API server: an expired token costs one login, however many requests meet it."""

import asyncio
from typing import Any

import kopf
from aiohttp import web
from aiohttp.test_utils import TestServer

from harmony_operator.api_client import ApiClient
from harmony_operator.observed import ObjectKey

REQUESTS = 20


def test_requests_that_meet_an_expired_token_log_in_once_and_all_succeed() -> None:
    async def run() -> tuple[int, list[dict[str, Any]]]:
        everybody_was_refused = asyncio.Barrier(REQUESTS)

        async def answer(request: web.Request) -> web.Response:
            if request.headers["Authorization"] == "Bearer token-1":
                await everybody_was_refused.wait()
                return web.json_response({"reason": "Unauthorized"}, status=401)
            await asyncio.sleep(0.01)
            return web.json_response({"kind": "Pod"})

        application = web.Application()
        application.router.add_get("/{path:.*}", answer)
        logins = 0
        async with TestServer(application) as server:

            def login() -> kopf.ConnectionInfo:
                nonlocal logins
                logins += 1
                return kopf.ConnectionInfo(server=str(server.make_url("")), token=f"token-{logins}")

            client = ApiClient(login)
            gets = (client.get("Pod", ObjectKey("team", f"p{i}")) for i in range(REQUESTS))
            found = await asyncio.wait_for(asyncio.gather(*gets), 60)
            await client.close()
        return logins, found

    logins, found = asyncio.run(run())
    assert logins == 2
    assert found == [{"kind": "Pod"}] * REQUESTS
