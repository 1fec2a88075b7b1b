"""`python -m harmony_sidecar.device_report`: tells which devices a reservation pod was given.

A device plugin names a container's devices in its environment, or mounts them and leaves it
to the driver's tool to tell. The program has no access to the API server: it answers whoever
asks at `GET /devices`, with the UUIDs separated by commas.
"""

import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Final

from harmony_api.pod_layout import RESERVATION_HTTP_PORT

_UUID: Final = re.compile(r"(?:GPU|MIG)-[A-Za-z0-9/-]+")


def devices_in_environment(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Return the UUIDs that the device plugin wrote; none where it names devices otherwise."""
    words = environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    return tuple(words) if all(map(_UUID.fullmatch, words)) else ()


def devices_of_driver(listing: str) -> tuple[str, ...]:
    """Return the UUIDs in the output of `nvidia-smi -L`: of MIG slices where there are any."""
    found = _UUID.findall(listing)
    return tuple([uuid for uuid in found if uuid.startswith("MIG-")] or found)


class DeviceReportServer(ThreadingHTTPServer):
    """Answers with the devices."""

    daemon_threads = True

    def __init__(self, devices: tuple[str, ...], host: str, port: int) -> None:
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self.answer = ",".join(devices).encode("ascii")
        super().__init__((host, port), _Handler)


class _Handler(BaseHTTPRequestHandler):
    server: DeviceReportServer
    timeout = 5

    def do_GET(self) -> None:
        answer = self.server.answer if self.path == "/devices" else b""
        self.send_response(200 if answer else 404)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Requests are not worth a line each."""


def main() -> int:
    """Answer until SIGTERM; return 1 where no device is found."""
    devices = devices_in_environment(os.environ)
    if not devices:
        try:
            listing = subprocess.run(
                ["nvidia-smi", "-L"], capture_output=True, text=True, timeout=30
            )
            devices = devices_of_driver(listing.stdout)
        except (OSError, subprocess.TimeoutExpired) as error:
            print(f"harmony_sidecar.device_report: {error}", file=sys.stderr)
    if not devices:
        print(
            "harmony_sidecar.device_report: neither NVIDIA_VISIBLE_DEVICES nor nvidia-smi names "
            "a device: does the pod need a runtime class?",
            file=sys.stderr,
        )
        return 1
    server = DeviceReportServer(devices, os.environ.get("POD_IP", ""), RESERVATION_HTTP_PORT)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    server.serve_forever(poll_interval=3600)
    return 0


if __name__ == "__main__":
    sys.exit(main())
