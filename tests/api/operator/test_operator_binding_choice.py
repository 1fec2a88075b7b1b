"""What binds devices follows the drivers that are installed."""

import asyncio

import kopf
import pytest
from operator_runs import Cluster

from harmony_operator import binding_choice
from harmony_operator.api_client import ApiClient
from harmony_operator.login import login
from harmony_operator.settings import OperatorSettings


def test_a_driver_that_is_installed_later_ends_the_operator(
    here: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = f"gpu.{here.namespace}.example.com"
    settings = OperatorSettings(sidecar_image="s", server_image="w", device_class=name)
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {},
    }
    monkeypatch.setenv("KUBECONFIG", str(here.server.kubeconfig))
    monkeypatch.setattr(binding_choice, "PERIOD_SECONDS", 0.1)

    async def run() -> None:
        client = ApiClient(lambda: login(kopf.OperatorSettings()))
        try:
            binding = await binding_choice.choose_now(client, settings)
            assert binding.name == "reservation"
            await asyncio.to_thread(here.apply, device_class)
            await binding_choice.end_when_another_binds(client, settings, binding)
        finally:
            await client.close()

    try:
        with pytest.raises(binding_choice.BindingChangedError, match="claim"):
            asyncio.run(asyncio.wait_for(run(), 60))
    finally:
        here.kubectl("delete", "deviceclass", name)
