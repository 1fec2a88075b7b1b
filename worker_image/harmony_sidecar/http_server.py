"""What a sidecar answers over HTTP: `/metrics`, `/state`, `/profile`, `/events`, `/healthz`.

Slow work of another kind than the permits': it copies what it needs under the lock, and
renders outside it.
"""

import http
import os
import socket
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from prometheus_client import CONTENT_TYPE_LATEST

from harmony_sidecar.sidecar import Sidecar

_JSON = "application/json"


class SidecarHttpServer(ThreadingHTTPServer):
    """Serves one sidecar; port 0 takes a free one."""

    daemon_threads = True

    def __init__(self, sidecar: Sidecar, host: str, port: int) -> None:
        self.sidecar = sidecar
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        super().__init__((host, port), _Handler)

    def publish_port(self, socket_path: Path) -> None:
        """Write the port beside the worker's socket, in one step."""
        path = socket_path.with_name(f"{socket_path.name}.port")
        draft = path.with_name(f"{path.name}.{os.getpid()}")
        draft.write_text(str(self.server_port), encoding="ascii")
        draft.replace(path)


class _Handler(BaseHTTPRequestHandler):
    server: SidecarHttpServer
    timeout = 5

    def do_GET(self) -> None:
        sidecar = self.server.sidecar
        url = urllib.parse.urlsplit(self.path)
        if url.path == "/metrics":
            self._answer(sidecar.accounts.metrics_text(), CONTENT_TYPE_LATEST)
        elif url.path == "/state":
            self._answer(sidecar.state().model_dump_json(by_alias=True).encode(), _JSON)
        elif url.path == "/profile":
            profile = sidecar.accounts.profile()
            if profile is None:
                self._fail(http.HTTPStatus.NO_CONTENT)
            else:
                self._answer(profile.model_dump_json(by_alias=True).encode(), _JSON)
        elif url.path == "/events":
            after = urllib.parse.parse_qs(url.query).get("after", ["0"])[0]
            if not after.isascii() or not after.isdigit() or len(after) > 18:
                self._fail(http.HTTPStatus.BAD_REQUEST)
                return
            page = sidecar.accounts.page(int(after))
            self._answer(page.model_dump_json(by_alias=True).encode(), _JSON)
        elif url.path == "/healthz":
            self._answer(b"ok\n", "text/plain")
        else:
            self._fail(http.HTTPStatus.NOT_FOUND)

    def _answer(self, body: bytes, content_type: str) -> None:
        self.send_response(http.HTTPStatus.OK)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _fail(self, status: http.HTTPStatus) -> None:
        self.send_response(status)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are not worth a line each."""
