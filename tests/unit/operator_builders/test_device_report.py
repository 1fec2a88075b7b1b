"""A reservation pod finds out which devices it has, and tells whoever asks."""

import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from harmony_operator.gpu_binding.reservation import DEVICES_PATH, reported_devices
from harmony_sidecar.device_report import (
    DeviceReportServer,
    devices_in_environment,
    devices_of_driver,
)

GPU, MIG = "GPU-8f6d6b5e-0000-1111-2222-333344445555", "MIG-41b35f7d-0000-1111-2222-333344445555"


@pytest.fixture
def address() -> Iterator[str]:
    server = DeviceReportServer((GPU, MIG), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def test_the_operator_understands_the_answer(address: str) -> None:
    with urllib.request.urlopen(address + DEVICES_PATH) as answer:
        assert reported_devices(answer.read().decode()) == (GPU, MIG)


def test_there_is_nothing_else_to_ask(address: str) -> None:
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address + "/")


@pytest.mark.parametrize(
    ("value", "devices"),
    [
        (GPU, (GPU,)),
        (f"{GPU},{MIG}", (GPU, MIG)),
        ("GPU-node-a", ("GPU-node-a",)),
        ("all", ()),
        ("void", ()),
        ("/var/run/nvidia-container-devices", ()),
        ("", ()),
    ],
)
def test_the_device_plugin_may_name_devices_in_the_environment(
    value: str, devices: tuple[str, ...]
) -> None:
    assert devices_in_environment({"NVIDIA_VISIBLE_DEVICES": value}) == devices
    assert devices_in_environment({}) == ()


def test_else_the_driver_lists_them() -> None:
    assert devices_of_driver(f"GPU 0: NVIDIA H100 (UUID: {GPU})\n") == (GPU,)
    listing = f"GPU 0: NVIDIA H100 (UUID: {GPU})\n  MIG 1g.10gb Device 0: (UUID: {MIG})\n"
    assert devices_of_driver(listing) == (MIG,)
    assert devices_of_driver("No devices found.\n") == ()


def report(path: Path, **environ: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PATH": str(path), "NVIDIA_VISIBLE_DEVICES": "void", **environ}
    command = [sys.executable, "-m", "harmony_sidecar.device_report"]
    return subprocess.run(command, env=environment, capture_output=True, text=True)


def test_a_pod_without_devices_ends_and_says_why(tmp_path: Path) -> None:
    ended = report(tmp_path)
    assert ended.returncode == 1
    assert "runtime class" in ended.stderr
