"""Workers use the devices that are held for them, and move when those become others."""

from dataclasses import replace

from policy_cluster import SETTINGS, Cluster, job_manifest

from harmony_api.conditions import ConditionType
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.parsing import parse_claim, parse_reservation


def reserve(cluster: Cluster, *devices: str) -> None:
    """Let the slots' only reservation pod be one that has reported these devices."""
    assert cluster.group is not None
    [manifest] = cluster.binding.wanted(cluster.group, cluster.state())
    seen = parse_reservation(manifest)
    assert seen is not None
    cluster.reservations = {seen.key: replace(seen, phase="Running", devices=devices)}


def reserved() -> Cluster:
    """A job whose only worker runs on the first of two reserved devices."""
    manifest = job_manifest()
    manifest["spec"]["workers"]["gpusPerWorker"] = 1
    cluster = Cluster(manifest, binding=ReservationBinding(SETTINGS))
    cluster.place("node-a", gpus=2)
    reserve(cluster, "GPU-1", "GPU-2")
    cluster.settle()
    cluster.start()
    cluster.settle()
    assert cluster.pod("mlr-worker-0").devices == ("GPU-1",)
    return cluster


def test_a_worker_whose_reservation_came_back_with_another_device_starts_anew_on_that() -> None:
    cluster = reserved()
    reserve(cluster, "GPU-3", "GPU-2")
    cluster.settle()
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is not None
    assert cluster.condition(ConditionType.RUNNING).reason == "Moving"
    cluster.stop_obediently()
    cluster.pass_time(60)
    assert cluster.pod("mlr-worker-0").devices == ("GPU-3",)
    assert cluster.status.restarts == 0


def test_a_worker_that_has_not_started_on_a_lost_device_is_made_anew_at_once() -> None:
    cluster = Cluster(reserved().manifest, binding=ReservationBinding(SETTINGS))
    cluster.place("node-a", gpus=2)
    reserve(cluster, "GPU-1", "GPU-2")
    cluster.settle()
    reserve(cluster, "GPU-3", "GPU-2")
    cluster.settle()
    assert cluster.pod("mlr-worker-0").devices == ("GPU-3",)


def test_workers_go_on_while_a_lost_reservation_comes_back_with_their_devices() -> None:
    cluster = reserved()
    cluster.reservations = {}
    cluster.settle()
    reserve(cluster, "GPU-1", "GPU-4")
    cluster.settle()
    worker = cluster.pod("mlr-worker-0")
    assert worker.stop_asked_seconds is None
    assert worker.devices == ("GPU-1",)


def claim(cluster: Cluster) -> None:
    """Let the slots be bound by claims, and the only one be allocated."""
    cluster.binding = ClaimBinding(SETTINGS)
    assert cluster.group is not None
    [manifest] = cluster.binding.wanted(cluster.group, cluster.state())
    seen = parse_claim(manifest)
    cluster.claims = {seen.key: replace(seen, devices=("gpu-0", "gpu-1"))}


def test_workers_move_to_claims_when_a_driver_is_installed() -> None:
    cluster = reserved()
    claim(cluster)
    cluster.settle()
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is not None
    cluster.stop_obediently()
    cluster.pass_time(60)
    assert cluster.pod("mlr-worker-0").devices == ()
    assert "resourceClaims" in cluster.pods["mlr-worker-0"]["spec"]
    assert cluster.status.restarts == 0


def test_workers_with_claims_go_on_until_a_reservation_has_devices_for_them() -> None:
    cluster = reserved()
    claim(cluster)
    cluster.settle()
    cluster.stop_obediently()
    cluster.pass_time(60)
    cluster.start()
    cluster.settle()
    cluster.binding = ReservationBinding(SETTINGS)
    cluster.reservations = {}
    cluster.settle()
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is None
    reserve(cluster, "GPU-5", "GPU-6")
    cluster.settle()
    assert cluster.pod("mlr-worker-0").stop_asked_seconds is not None
    cluster.stop_obediently()
    cluster.pass_time(60)
    assert cluster.pod("mlr-worker-0").devices == ("GPU-5",)


def test_a_reservation_is_as_important_as_the_most_important_member() -> None:
    cluster = reserved()
    cluster.edit(priorityClassName="high")
    cluster.priorities = {"high": 10, "low": 1}
    assert cluster.group is not None
    [pod] = cluster.binding.wanted(cluster.group, cluster.state())
    assert pod["spec"]["priorityClassName"] == "high"


def moved(cluster: Cluster, *nodes: str) -> None:
    """Plan the job elsewhere; its old group stays, as long as its worker is there."""
    assert cluster.group is not None
    spec = cluster.group.spec.model_copy(update={"members": ()})
    cluster.left_groups = [replace(cluster.group, spec=spec)]
    cluster.place(*nodes, name="g-2", gpus=2)


def is_told_to_stop(cluster: Cluster) -> bool:
    cluster.settle()
    return cluster.pod("mlr-worker-0").stop_asked_seconds is not None


def test_a_worker_leaves_a_good_place_only_when_the_new_one_is_bound() -> None:
    cluster = reserved()
    before = cluster.reservations
    moved(cluster, "node-b")
    assert not is_told_to_stop(cluster)
    assert cluster.status.state == "Running"
    reserve(cluster, "GPU-8", "GPU-9")
    cluster.reservations |= before
    assert is_told_to_stop(cluster)


def test_a_worker_leaves_at_once_when_its_old_devices_are_lost() -> None:
    cluster = reserved()
    moved(cluster, "node-b")
    cluster.reservations = {}
    assert is_told_to_stop(cluster)


def test_a_worker_leaves_at_once_when_the_new_place_needs_what_it_holds() -> None:
    cluster = reserved()
    moved(cluster, "node-a")
    assert is_told_to_stop(cluster)
