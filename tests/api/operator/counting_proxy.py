"""A proxy in front of the API server that counts an operator's writes and acts after each.

Reads and watches pass through. After a write was carried out, and before its answer goes back,
`after_write` is called: the moment at which a crash does most harm, since the cluster has
changed and the operator does not know.
"""

import json
import ssl
from collections.abc import Callable
from pathlib import Path

import aiohttp
from aiohttp import web

from cluster.api_server import ApiServer
from cluster.loop_thread import LoopThread

_HOP_HEADERS = {"connection", "transfer-encoding", "content-length", "content-encoding", "host"}


class CountingProxy(LoopThread):
    """The proxy; `kubeconfig` leads through it."""

    after_write: Callable[[], None]
    """Called after each write, by the proxy's thread."""

    def __init__(self, server: ApiServer, folder: Path) -> None:
        super().__init__()
        self.writes: list[str] = []
        """`METHOD path` of each write but those of the Lease."""
        self.after_write = lambda: None
        self._server = server
        self._folder = folder

    async def _open(self) -> None:
        context = ssl.create_default_context(cafile=str(self._server.certificate_authority))
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=context, limit=0),
            timeout=aiohttp.ClientTimeout(total=None),
            auto_decompress=False,
        )
        application = web.Application(client_max_size=16 * 2**20)
        application.router.add_route("*", "/{path:.*}", self._pass_on)
        self._runner = web.AppRunner(application, shutdown_timeout=0.2)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port: int = self._runner.addresses[0][1]
        config = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "proxy",
            "clusters": [{"name": "proxy", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "proxy", "user": {"token": self._server.token}}],
            "contexts": [{"name": "proxy", "context": {"cluster": "proxy", "user": "proxy"}}],
        }
        self.kubeconfig = self._folder / "proxy-kubeconfig"
        self.kubeconfig.write_text(json.dumps(config))

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    async def _pass_on(self, request: web.Request) -> web.StreamResponse:
        headers = {
            name: value
            for name, value in request.headers.items()
            if name.lower() not in _HOP_HEADERS
        }
        async with self._session.request(
            request.method,
            self._server.url + request.path_qs,
            headers=headers,
            data=await request.read() or None,
        ) as answer:
            passed = {
                name: value
                for name, value in answer.headers.items()
                if name.lower() not in _HOP_HEADERS or name.lower() == "content-encoding"
            }
            if _is_write(request) and answer.status < 400:
                body = await answer.read()
                self.writes.append(f"{request.method} {request.path}")
                self.after_write()
                return web.Response(status=answer.status, headers=passed, body=body)
            response = web.StreamResponse(status=answer.status, headers=passed)
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            return response


def _is_write(request: web.Request) -> bool:
    dry = "dryRun" in request.query
    return request.method != "GET" and not dry and "/leases" not in request.path
