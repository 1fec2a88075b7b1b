"""What a pass over a group does with its reservation pod, against a small API of the test's own."""

import asyncio
import time
from typing import Any

import aiohttp
import kopf
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from harmony_api import labels
from harmony_operator.api_client import ApiClient
from harmony_operator.applying import Applier
from harmony_operator.event_posting import EventPoster
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.group_controller import GroupController
from harmony_operator.mirror import Mirror, members_of
from harmony_operator.observed import ObjectKey
from operator_values import SETTINGS, group, job, member, slot

JOB = job()
GROUP = group(member(JOB, (0,)), slots=[slot(0, gpus=1)])
RAW_GROUP: dict[str, Any] = {
    "kind": "HarmonyGroup",
    "metadata": {
        "name": GROUP.key.name,
        "namespace": GROUP.key.namespace,
        "uid": GROUP.uid,
        "resourceVersion": "1",
    },
    "spec": GROUP.spec.to_dict(),
}
DEVICES = {labels.DEVICES: "GPU-1"}
RESERVING = ReservationBinding(SETTINGS)


def look(
    annotations: dict[str, str],
    status: dict[str, Any],
    binding: GpuBinding = RESERVING,
    **metadata: str,
) -> tuple[float | None, list[ObjectKey], Mirror]:
    """One pass with a reservation pod like this: when to look again, which jobs to look at."""
    looked: list[ObjectKey] = []
    mirror = Mirror(lambda _: None)
    [manifest] = RESERVING.wanted(GROUP, mirror.state(0.0))
    created = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    stamps = {"uid": "pod", "resourceVersion": "1", "creationTimestamp": created, **metadata}
    given = {**manifest["metadata"]["annotations"], **annotations}
    mirror.observe("HarmonyGroup", RAW_GROUP)
    pod = {
        **manifest,
        "metadata": {**manifest["metadata"], **stamps, "annotations": given},
        "status": status,
    }
    mirror.observe("Pod", pod)

    async def patch_status(request: web.Request) -> web.Response:
        stamps = {**RAW_GROUP["metadata"], "resourceVersion": "2"}
        return web.json_response({**RAW_GROUP, "metadata": stamps, **await request.json()})

    async def create_claim(request: web.Request) -> web.Response:
        claim = await request.json()
        stamps = {**claim["metadata"], "uid": "claim", "resourceVersion": "3"}
        return web.json_response({**claim, "metadata": stamps})

    async def run() -> float | None:
        app = web.Application()
        claims = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims"
        path = f"/apis/harmony.dev/v1alpha1/namespaces/team/harmonygroups/{GROUP.key.name}/status"
        app.add_routes([web.patch(path, patch_status), web.post(claims, create_claim)])
        async with TestServer(app, host="127.0.0.1") as server, aiohttp.ClientSession() as http:
            info = kopf.ConnectionInfo(server=str(server.make_url("/")))
            client = ApiClient(lambda: info)
            applier = Applier(client, mirror, EventPoster(client, "test"))
            controller = GroupController(mirror, applier, binding, http, looked.append)
            try:
                return await controller.look_at(GROUP.key)
            finally:
                await client.close()

    return asyncio.run(run()), looked, mirror


@pytest.mark.parametrize("annotations", [{}, DEVICES], ids=["unreported", "reported"])
def test_a_reservation_that_failed_is_looked_at_again(annotations: dict[str, str]) -> None:
    again, looked, _ = look(annotations, {"phase": "Failed", "reason": "Evicted"})
    assert again is not None
    assert looked == list(members_of(GROUP))


def test_a_reservation_that_is_on_its_way_out_is_looked_at_again() -> None:
    leaving = {"deletionTimestamp": "2027-01-15T08:00:00Z"}
    again, looked, _ = look(DEVICES, {"phase": "Running"}, **leaving)
    assert again is not None
    assert looked == list(members_of(GROUP))


def test_a_groups_status_says_which_devices_its_slots_have_and_what_holds_them() -> None:
    again, _, mirror = look(DEVICES, {"phase": "Running"})
    assert again is None
    [pod] = mirror.reservations
    [bound] = mirror.groups[GROUP.key].status.slots
    assert (bound.name, bound.devices, bound.reservation_pod) == ("node-a/0", ("GPU-1",), pod.name)


def test_a_claim_takes_the_place_of_a_reservation_of_its_name() -> None:
    again, _, mirror = look(DEVICES, {"phase": "Running"}, ClaimBinding(SETTINGS))
    assert again is not None, "a worker may use it still"
    assert len(mirror.claims) == 1
    assert not mirror.reservations
