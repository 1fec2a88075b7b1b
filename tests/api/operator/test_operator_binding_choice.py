"""What binds devices follows the drivers that are installed."""

import asyncio

import kopf
import pytest
from operator_runs import Cluster, OperatorProcess
from stub_devices import gpu_job, plugged, sliced

from cluster.stub_nodes import StubNodes
from harmony_api.labels import DEVICES
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


def test_a_running_group_changes_over_to_what_binds_now(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    def starts() -> tuple[int, ...]:
        return tuple(nodes.starts[here.namespace, f"mlr-{role}-0"] for role in ("worker", "server"))

    with sliced(here, nodes) as by_claims, plugged(nodes, "127.71.0.4") as by_pods:
        first: OperatorProcess = start_operator("first", **by_claims)
        here.apply(gpu_job())
        here.wait_condition("mlr", "Running")
        first.stop()
        second: OperatorProcess = start_operator("second", **by_pods)
        here.wait("the claim is gone", lambda: not here.names("resourceclaims"))
        here.wait("the worker runs anew", lambda: starts() == (2, 1))
        worker = nodes.pods(here.namespace)["mlr-worker-0"]
        assert worker["metadata"]["annotations"][DEVICES] == "GPU-71"
        here.wait_condition("mlr", "Running")
        second.stop()
        start_operator("third", **by_claims)
        here.wait("the worker runs once more", lambda: starts() == (3, 1))
        here.wait_condition("mlr", "Running")
        assert here.job("mlr")["status"]["restarts"] == 0
