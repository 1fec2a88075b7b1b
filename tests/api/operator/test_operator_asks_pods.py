"""What the operator asks pods over HTTP: sidecars for profiles, reservations for devices.

Pods of this tier do not run, so their answers come from the test, at loopback addresses of its
own.
"""

import pytest
from operator_runs import Cluster, OperatorProcess, Raw, job
from stub_devices import answering, gpu_job, role, sliced

from cluster.stub_nodes import StubNodes
from harmony_api.pod_layout import RESERVATION_HTTP_PORT, SIDECAR_HTTP_PORT
from harmony_api.profile import JobProfile
from harmony_api.sidecar_state import SidecarState


def test_progress_and_profile_come_from_the_sidecars(
    here: Cluster, nodes: StubNodes, operator: OperatorProcess
) -> None:
    address = "127.71.0.1"
    nodes.addresses = lambda pod: address if role(pod) == "worker" else None
    profile = JobProfile(
        iterations=200,
        compute_microseconds=90_000,
        pull_microseconds=30_000,
        push_microseconds=30_000,
    )
    state = SidecarState(
        job=f"{here.namespace}/mlr",
        worker=0,
        connected=True,
        iteration=300,
        total=1000,
        profile=profile,
    )
    answers = {"/state": state.model_dump_json(by_alias=True)}
    with answering(address, SIDECAR_HTTP_PORT, answers):
        here.apply(job(workers=1, iterations=1000))
        here.wait(
            "the profile is in the status",
            lambda: here.job("mlr").get("status", {}).get("profiles"),
        )
    status = here.job("mlr")["status"]
    assert status["profiles"][0]["computeMicroseconds"] == 90_000
    assert status["progress"]["iteration"] == 300
    assert status["progress"]["total"] == 1000
    assert "300" in here.kubectl("get", "hj", "mlr")


def test_a_reservation_tells_its_devices_before_the_workers_are_made(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    address = "127.71.0.2"
    nodes.addresses = lambda pod: address if role(pod) == "reservation" else None
    nodes.offer({"nvidia.com/gpu": "1"})
    operator: OperatorProcess = start_operator(GPU_BINDING="reservation")
    operator.wait_leading()
    here.apply(gpu_job())
    here.wait(
        "the reservation runs",
        lambda: [
            pod
            for pod in here.objects("pods")
            if role(pod) == "reservation" and pod["status"]["phase"] == "Running"
        ],
    )
    assert "mlr-worker-0" not in here.names("pods")
    with answering(address, RESERVATION_HTTP_PORT, {"/devices": "GPU-71\n"}):
        here.wait_condition("mlr", "Running")
    worker = next(pod for pod in here.objects("pods") if role(pod) == "worker")
    main = next(one for one in worker["spec"]["containers"] if one["name"] == "worker")
    assert "GPU-71" in [variable.get("value") for variable in main["env"]]
    assert "GPU-71" in worker["metadata"]["annotations"]["harmony.dev/node-plan"]
    assert worker["metadata"]["annotations"]["harmony.dev/devices"] == "GPU-71"
    here.wait(
        "the group says which device it has",
        lambda: [
            slot
            for group in here.objects("hg")
            for slot in (group.get("status") or {}).get("slots") or ()
            if slot["devices"] == ["GPU-71"] and slot["reservationPod"]
        ],
    )

    nodes.end(here.namespace, "mlr-worker-0")
    here.wait_condition("mlr", "Succeeded")
    here.wait("group and reservation are gone", lambda: not here.names("hg"))
    here.wait(
        "the device is free",
        lambda: not [pod for pod in here.objects("pods") if role(pod) == "reservation"],
    )


def test_a_group_has_one_claim_for_each_slot_which_goes_with_it(
    here: Cluster, nodes: StubNodes, start_operator
) -> None:
    with sliced(here, nodes) as settings:
        operator: OperatorProcess = start_operator(**settings)
        operator.wait_leading()
        here.apply(gpu_job())
        here.wait("the worker exists", lambda: "mlr-worker-0" in here.names("pods"))
        claims = here.objects("resourceclaims")
        assert len(claims) == 1
        worker = next(pod for pod in here.objects("pods") if role(pod) == "worker")
        named = [one["resourceClaimName"] for one in worker["spec"]["resourceClaims"]]
        assert named == [claims[0]["metadata"]["name"]]
        here.wait_condition("mlr", "Running")
        nodes.end(here.namespace, "mlr-worker-0")
        here.wait_condition("mlr", "Succeeded")
        here.wait("the claim is gone", lambda: not here.names("resourceclaims"))


def fail(pod: Raw) -> Raw | None:
    """Let a reservation be refused by its node."""
    refusal = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": "no devices"}
    return refusal if role(pod) == "reservation" else None


@pytest.mark.parametrize("trouble", ["pending", "failed", "unreported"])
@pytest.mark.parametrize("killed", [False, True], ids=["", "operator-killed"])
def test_a_job_deleted_before_its_reservation_has_told_its_devices_leaves_nothing(
    here: Cluster, nodes: StubNodes, start_operator, trouble: str, *, killed: bool
) -> None:
    nodes.offer({"nvidia.com/gpu": "1"})
    nodes.holds = lambda pod: trouble == "pending" and role(pod) == "reservation"
    nodes.refusals = fail if trouble == "failed" else nodes.refusals
    phase = {"pending": "Pending", "failed": "Failed", "unreported": "Running"}[trouble]
    operator: OperatorProcess = start_operator(GPU_BINDING="reservation")
    here.apply(gpu_job())

    def reserving() -> bool:
        pods = here.objects("pods")
        return any(role(pod) == "reservation" and pod["status"]["phase"] == phase for pod in pods)

    here.wait("the reservation is there", reserving)
    if killed:
        operator.kill()
        operator.wait_end()
    here.kubectl("delete", "hj", "mlr", "--timeout=30s")
    if killed:
        operator.start()
    here.wait("nothing is left", lambda: not here.names("hj,hg,pods,services"))
