"""Devices of a group are bound once, by a claim or a pod that the group owns."""

from dataclasses import replace
from typing import Any

import pytest
from built_objects import checked, container, environment
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import ResourceV1ResourceClaim, V1Pod

from harmony_api import labels
from harmony_operator.builders.names import slot_object_name
from harmony_operator.gpu_binding import BindingProblem, GpuBinding, SlotBinding
from harmony_operator.gpu_binding.choose import CLAIMS, choose
from harmony_operator.gpu_binding.dra import ClaimBinding, request_names
from harmony_operator.gpu_binding.none import NoBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding, reported_devices
from harmony_operator.observed import (
    ClusterState,
    ObjectKey,
    ObservedClaim,
    ObservedDevice,
    ObservedGroup,
    ObservedPod,
    ObservedReservation,
)
from harmony_operator.parsing import parse_claim, parse_reservation
from operator_values import SETTINGS, group, slot

GROUP = group(slots=(slot(0, gpus=2), slot(0, node="node-b", gpus=1), slot(7)))
FIRST, SECOND = (slot_object_name("g-12345", one.name) for one in GROUP.spec.slots[:2])
BINDINGS: tuple[GpuBinding, ...] = (
    ClaimBinding(SETTINGS),
    ReservationBinding(SETTINGS),
    NoBinding(),
)


def claims(of: ObservedGroup = GROUP, **fields: Any) -> tuple[ObservedClaim, ...]:
    """The claims of a group as the API server shows them."""
    manifests = ClaimBinding(SETTINGS).wanted(of, state())
    return tuple(
        replace(parse_claim(one), uid=f"uid-{n}", **fields) for n, one in enumerate(manifests)
    )


def reservations(of: ObservedGroup = GROUP, **fields: Any) -> tuple[ObservedReservation, ...]:
    """The reservation pods of a group as the API server shows them."""
    seen = map(parse_reservation, ReservationBinding(SETTINGS).wanted(of, state()))
    return tuple(replace(one, uid=f"uid-{n}", **fields) for n, one in enumerate(seen) if one)


def state(
    *objects: ObservedClaim | ObservedReservation, now: float = 0.0, **fields: Any
) -> ClusterState:
    return ClusterState(
        now_seconds=now,
        claims={one.key: one for one in objects if isinstance(one, ObservedClaim)},
        reservations={one.key: one for one in objects if isinstance(one, ObservedReservation)},
        **fields,
    )


@pytest.mark.parametrize("binding", BINDINGS, ids=lambda one: one.name)
def test_a_cpu_slot_is_a_node_and_its_own_device(binding: GpuBinding) -> None:
    assert binding.bind(GROUP, 2, state()) == SlotBinding(
        slot="node-a/7", node="node-a", devices=("node-a/7",)
    )


@pytest.mark.parametrize("binding", BINDINGS[:2], ids=lambda one: one.name)
def test_what_binds_a_slot_goes_with_its_group(binding: GpuBinding) -> None:
    wanted = binding.wanted(GROUP, state())
    assert len(wanted) == 2
    for manifest in wanted:
        metadata = manifest["metadata"]
        [owner] = metadata["ownerReferences"]
        assert (owner["kind"], owner["name"], owner["uid"]) == (
            "HarmonyGroup",
            "g-12345",
            "uid-group",
        )
        assert metadata["namespace"] == "team"
        assert metadata["labels"][labels.GROUP] == "g-12345"


@pytest.mark.parametrize("binding", BINDINGS[:2], ids=lambda one: one.name)
def test_a_slot_whose_object_is_not_there_yet_is_waited_for(binding: GpuBinding) -> None:
    assert binding.bind(GROUP, 0, state()) is None
    devices = ("GPU-1", "GPU-2")
    ending = (*claims(deleting=True), *reservations(deleting_since_seconds=5.0, devices=devices))
    assert binding.bind(GROUP, 0, state(*ending)) is None


@pytest.mark.parametrize("binding", BINDINGS[:2], ids=lambda one: one.name)
def test_what_an_earlier_group_of_the_same_name_left_is_deleted_and_waited_for(
    binding: GpuBinding,
) -> None:
    earlier = replace(GROUP, uid="uid-earlier")
    devices = ("GPU-1", "GPU-2")
    left = claims(earlier) if binding.name == "claim" else reservations(earlier, devices=devices)
    assert binding.bind(GROUP, 0, state(*left)) is None
    assert len(binding.unwanted(GROUP, state(*left))) == 2
    assert binding.unwanted(earlier, state(*left)) == ()


@pytest.mark.parametrize("devices", [(), ("GPU-1",)], ids=["claim", "reservation"])
def test_what_another_binding_made_for_a_group_goes_when_its_workers_do_not_use_it(
    devices: tuple[str, ...],
) -> None:
    slot_name = GROUP.spec.slots[0].name
    worker = ObservedPod(
        key=ObjectKey("team", "mlr-worker-0"), uid="worker", job="mlr", job_uid="uid-mlr",
        role="worker", index=0, slot=slot_name, devices=devices, phase="Running",
    )  # fmt: skip
    seen = state(*claims(), *reservations(), pods={worker.key: worker})
    by_claims = {one.key.name for one in ClaimBinding(SETTINGS).unwanted(GROUP, seen)}
    assert by_claims == ({SECOND} if devices else {FIRST, SECOND})
    by_pods = ReservationBinding(SETTINGS).unwanted(GROUP, seen)
    assert {(one.kind, one.key.name) for one in by_pods} == {
        ("ResourceClaim", FIRST),
        ("ResourceClaim", SECOND),
    }


# ---- claims


def test_a_claim_requests_each_gpu_by_a_name() -> None:
    first, second = (
        checked(ResourceV1ResourceClaim, one)
        for one in ClaimBinding(SETTINGS).wanted(GROUP, state())
    )
    assert [one["metadata"]["name"] for one in (first, second)] == [FIRST, SECOND]
    requests = first["spec"]["devices"]["requests"]
    assert [one["name"] for one in requests] == ["gpu-00", "gpu-01"]
    assert all(one["exactly"]["count"] == 1 for one in requests)
    assert all(one["exactly"]["deviceClassName"] == "gpu.example.com" for one in requests)


@given(st.integers(0, 64))
def test_request_names_sort_as_they_count(gpus: int) -> None:
    assert sorted(request_names(gpus)) == list(request_names(gpus))


def test_a_claim_binds_before_its_devices_are_known() -> None:
    bound = ClaimBinding(SETTINGS).bind(GROUP, 0, state(*claims()))
    assert bound == SlotBinding(slot="node-a/0", node="node-a", devices=None, claim_name=FIRST)
    devices = ("gpu.example.com/node-a/gpu-0", "gpu.example.com/node-a/gpu-1")
    bound = ClaimBinding(SETTINGS).bind(GROUP, 0, state(*claims(devices=devices)))
    assert isinstance(bound, SlotBinding)
    assert bound.devices == devices


def test_a_claim_of_somebody_else_is_a_problem_that_says_what_to_do() -> None:
    problem = ClaimBinding(SETTINGS).bind(GROUP, 0, state(*claims(group="", owner_uid="")))
    assert isinstance(problem, BindingProblem)
    assert problem.reason == "GPUBindingFailed"
    assert "not Harmony's" in problem.message


def test_devices_on_another_node_than_the_slots_are_a_problem() -> None:
    device = ObservedDevice(node="node-b", driver="d", pool="node-b", name="gpu-0")
    seen = state(*claims(devices=(device.id,)), devices=(device,))
    problem = ClaimBinding(SETTINGS).bind(GROUP, 0, seen)
    assert isinstance(problem, BindingProblem)
    assert "node-b" in problem.message


def test_a_slot_keeps_its_claim_when_the_group_loses_another() -> None:
    later = group(slots=GROUP.spec.slots[1:])
    bound = ClaimBinding(SETTINGS).bind(later, 0, state(*claims()))
    assert isinstance(bound, SlotBinding)
    assert (bound.slot, bound.claim_name) == ("node-b/0", SECOND)
    [delete] = ClaimBinding(SETTINGS).unwanted(later, state(*claims()))
    assert delete.key.name == FIRST


def test_claims_of_slots_that_are_gone_are_deleted() -> None:
    smaller = group(slots=GROUP.spec.slots[:1])
    [delete] = ClaimBinding(SETTINGS).unwanted(smaller, state(*claims()))
    assert (delete.kind, delete.key.name, delete.uid) == ("ResourceClaim", SECOND, "uid-1")
    assert ClaimBinding(SETTINGS).unwanted(GROUP, state(*claims())) == ()
    foreign = claims(group="g-other")
    assert ClaimBinding(SETTINGS).unwanted(smaller, state(*foreign)) == ()


# ---- reservations


def test_a_reservation_pod_takes_the_slots_gpus_on_its_node() -> None:
    settings = replace(
        SETTINGS,
        runtime_class="nvidia",
        reservation_environment={"NVIDIA_VISIBLE_DEVICES": "GPU-$(NODE_NAME)"},
    )
    pod = checked(V1Pod, ReservationBinding(settings).wanted(GROUP, state())[0])
    assert pod["metadata"]["name"] == FIRST
    assert pod["spec"]["runtimeClassName"] == "nvidia"
    holder = container(pod, "reservation")
    assert holder["resources"]["limits"]["nvidia.com/gpu"] == "2"
    assert environment(holder)["NVIDIA_VISIBLE_DEVICES"] == "GPU-$(NODE_NAME)"
    names = [one["name"] for one in holder["env"]]
    assert names.index("NODE_NAME") < names.index("NVIDIA_VISIBLE_DEVICES")
    required = pod["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    assert required["nodeSelectorTerms"][0]["matchFields"][0]["values"] == ["node-a"]


def test_a_reserved_slot_is_used_by_the_devices_that_its_pod_reported() -> None:
    binding = ReservationBinding(replace(SETTINGS, runtime_class="nvidia"))
    assert binding.bind(GROUP, 0, state(*reservations(phase="Running"))) is None
    seen = state(*reservations(phase="Running", devices=("GPU-1", "GPU-2")))
    assert binding.bind(GROUP, 0, seen) == SlotBinding(
        slot="node-a/0",
        node="node-a",
        devices=("GPU-1", "GPU-2"),
        reservation_pod=FIRST,
        visible_devices="GPU-1,GPU-2",
        runtime_class="nvidia",
    )


def test_a_pod_that_reports_another_number_of_devices_is_a_problem() -> None:
    seen = state(*reservations(phase="Running", devices=("GPU-1",)))
    problem = ReservationBinding(SETTINGS).bind(GROUP, 0, seen)
    assert isinstance(problem, BindingProblem)
    assert "reports 1" in problem.message


def test_a_node_that_refuses_the_pod_is_tried_again_but_not_at_once() -> None:
    binding = ReservationBinding(SETTINGS)
    refused = reservations(phase="Failed", problem="UnexpectedAdmissionError: no GPU is free")
    problem = binding.bind(GROUP, 0, state(*refused, now=1.0))
    assert isinstance(problem, BindingProblem)
    assert "UnexpectedAdmissionError: no GPU is free" in problem.message
    assert binding.unwanted(GROUP, state(*refused, now=119.0)) == ()
    assert len(binding.unwanted(GROUP, state(*refused, now=120.0))) == 2


def test_the_scheduler_has_a_minute_to_find_room_for_a_reservation_pod() -> None:
    binding = ReservationBinding(SETTINGS)
    waiting = reservations(problem="Unschedulable: 0/2 nodes are available")
    assert binding.bind(GROUP, 0, state(*waiting, now=59.0)) is None
    assert isinstance(binding.bind(GROUP, 0, state(*waiting, now=60.0)), BindingProblem)


def test_reservations_that_work_are_never_deleted() -> None:
    working = reservations(phase="Running", devices=("GPU-1", "GPU-2"))
    assert ReservationBinding(SETTINGS).unwanted(GROUP, state(*working, now=1e9)) == ()


def test_a_pod_that_was_deleted_and_does_not_go_is_a_problem() -> None:
    binding = ReservationBinding(SETTINGS)
    ending = reservations(phase="Running", devices=("GPU-1", "GPU-2"), deleting_since_seconds=10.0)
    assert binding.bind(GROUP, 0, state(*ending, now=309.0)) is None
    problem = binding.bind(GROUP, 0, state(*ending, now=310.0))
    assert isinstance(problem, BindingProblem)
    assert "it was deleted and is still there" in problem.message


def test_a_pod_that_is_ending_is_not_deleted_again() -> None:
    ending = reservations(deleting_since_seconds=5.0, problem="Failed")
    assert ReservationBinding(SETTINGS).unwanted(GROUP, state(*ending, now=1e9)) == ()


@given(
    st.lists(st.from_regex(r"(GPU|MIG)-[0-9a-f-]{4,36}", fullmatch=True), min_size=1, unique=True)
)
def test_reported_devices_are_read_as_they_are_annotated(uuids: list[str]) -> None:
    assert reported_devices(",".join(uuids) + "\n") == tuple(uuids)


@given(st.text() | st.sampled_from(("", "GPU-1,GPU-1", "GPU-1,", "<html>", "GPU 1")))
def test_what_is_no_list_of_devices_is_refused_or_harmless(answer: str) -> None:
    try:
        devices = reported_devices(answer)
    except ValueError:
        return
    assert all(
        device.isascii() and device.isprintable() and "," not in device for device in devices
    )


# ---- which one


@pytest.mark.parametrize(
    ("setting", "served", "classes", "chosen"),
    [
        ("auto", {CLAIMS}, {"gpu.example.com"}, "claim"),
        ("auto", {CLAIMS}, {"nic.example.com"}, "reservation"),
        ("auto", set(), set(), "reservation"),
        ("claim", set(), set(), "claim"),
        ("reservation", {CLAIMS}, {"gpu.example.com"}, "reservation"),
        ("none", {CLAIMS}, {"gpu.example.com"}, "none"),
    ],
)
def test_the_binding_is_what_the_cluster_serves_unless_it_is_set(
    setting: Any, served: set[str], classes: set[str], chosen: str
) -> None:
    settings = replace(SETTINGS, gpu_binding=setting)
    assert choose(settings, frozenset(served), frozenset(classes)).name == chosen


def test_without_a_binding_a_slot_with_gpus_is_a_problem() -> None:
    assert isinstance(NoBinding().bind(GROUP, 0, state()), BindingProblem)
    assert NoBinding().wanted(GROUP, state()) == ()
