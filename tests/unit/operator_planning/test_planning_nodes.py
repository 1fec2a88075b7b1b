"""Which slots a cluster has: nodes come, go and refuse, and others use their devices too."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_cluster import GOOD, Cluster

from harmony_operator.observed import ObjectKey, ObservedClaim, ObservedReservation, Taint
from harmony_operator.planning.capacity import without_headroom
from harmony_operator.settings import OperatorSettings


def test_a_cordoned_node_keeps_its_jobs_and_gets_no_others() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    staying = cluster.add_job("mlr", GOOD)
    cluster.settle()
    cluster.run_pods()
    cluster.set_node("a", schedulable=False)
    waiting = cluster.add_job("mlp", GOOD)
    assert cluster.plan().steps == ()
    assert cluster.places(staying) == ["a/cpu-0"]
    assert cluster.waits(waiting) == ("waits until a slot is free: node a is cordoned")


def test_a_job_leaves_a_drained_node_also_when_its_next_worker_waits_there_already() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    job = cluster.add_job("mlr", GOOD)
    cluster.settle()
    [slot] = cluster.places(job)
    cluster.run_pods()
    cluster.set_node(slot[0], schedulable=False)
    for key, pod in cluster.pods.items():
        cluster.pods[key] = replace(pod, node="", phase="Pending", uid="anew")
    cluster.settle()
    assert cluster.places(job) == ["b/cpu-0" if slot[0] == "a" else "a/cpu-0"]


def test_a_taint_that_workers_with_gpus_tolerate_keeps_only_the_others_away() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", gpus=1)
    cluster.set_node("a", taints=frozenset({Taint("nvidia.com/gpu")}))
    with_gpu, without = cluster.add_job("mlr", gpus=1), cluster.add_job("mlp")
    cluster.plan()
    assert cluster.places(with_gpu) == ["a/gpu-0"]
    assert cluster.waits(without) == (
        "needs 1 slot, there are none that it may use: "
        "workers.template.spec.tolerations has none for the taint nvidia.com/gpu:NoSchedule"
    )


def test_a_group_with_devices_whose_node_is_lost_begins_anew() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", "b", "c", gpus=1)
    job = cluster.add_job("mlr", gpus=1, workers=2)
    cluster.plan()
    cluster.run_pods()
    (name,) = cluster.groups
    del cluster.nodes["a"]
    cluster.settle()
    assert cluster.places(job) == ["b/gpu-0", "c/gpu-0"]
    assert not cluster.groups[name].spec.members
    assert len(cluster.groups) == 2


def test_a_slot_stays_in_its_group_until_its_last_worker_has_left() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    wide = cluster.add_job("wide", GOOD, workers=2)
    cluster.add_job("narrow", GOOD)
    cluster.plan()
    cluster.run_pods()
    ((key, group),) = cluster.groups.items()
    assert [slot.name for slot in group.spec.slots] == ["a/cpu-0", "b/cpu-0"]
    cluster.suspend(wide)
    cluster.settle()
    assert cluster.members == [{"narrow"}]
    assert [slot.name for slot in cluster.groups[key].spec.slots] == ["a/cpu-0", "b/cpu-0"]
    cluster.remove_pods(wide)
    cluster.settle()
    assert [slot.name for slot in cluster.groups[key].spec.slots] == ["a/cpu-0"]


def test_a_silent_node_keeps_its_jobs_until_their_pods_are_given_up() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.plan()
    cluster.run_pods()
    cluster.set_node("a", ready=False)
    cluster.add_nodes("b")
    cluster.plan()
    assert cluster.places(job) == ["a/cpu-0"]
    cluster.set_pods(job, deleting_since_seconds=cluster.now)
    cluster.plan()
    assert cluster.places(job) == ["b/cpu-0"]


def test_a_lost_slot_of_a_wide_job_is_replaced_and_the_others_stay() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b", "c")
    job = cluster.add_job("mlr", workers=2)
    cluster.plan()
    (name,) = cluster.groups
    cluster.run_pods()
    del cluster.nodes["a"]
    cluster.plan()
    assert list(cluster.groups) == [name]
    assert cluster.places(job) == ["c/cpu-0", "b/cpu-0"]


def test_free_gpus_are_cut_to_what_the_jobs_ask_for() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", "b", gpus=4)
    four = cluster.add_job("four", gpus=4)
    pair = cluster.add_job("pair", gpus=2, workers=2)
    cluster.plan()
    assert cluster.places(four) == ["a/gpu-0"]
    assert cluster.places(pair) == ["b/gpu-0", "b/gpu-1"]
    sizes = {s.name: s.gpus for g in cluster.groups.values() for s in g.spec.slots}
    assert sizes == {"a/gpu-0": 4, "b/gpu-0": 2, "b/gpu-1": 2}


def test_a_gpu_of_somebody_elses_claim_is_not_offered() -> None:
    foreign = ObservedClaim(
        key=ObjectKey("other", "training"), uid="1", devices=("gpu.example.com/a/gpu-0",)
    )
    cluster = Cluster(binding="claim", more={"claims": {foreign.key: foreign}})
    cluster.add_nodes("a", gpus=1)
    job = cluster.add_job("mlr", gpus=1)
    cluster.plan()
    assert cluster.waits(job) == "waits until a slot is free"
    cluster.more = {}
    cluster.plan()
    assert cluster.places(job) == ["a/gpu-0"]


def test_a_device_plugins_gpus_are_offered_by_number() -> None:
    cluster = Cluster(binding="reservation")
    cluster.add_nodes("a", gpus=2)
    jobs = [cluster.add_job(name, gpus=1, sharing={"policy": "Exclusive"}) for name in "xyz"]
    cluster.plan()
    assert [cluster.places(job) for job in jobs] == [["a/gpu-0"], ["a/gpu-1"], []]


def test_a_node_that_did_not_give_its_gpus_is_left_alone_for_a_while() -> None:
    cluster = Cluster(binding="reservation")
    cluster.add_nodes("a", gpus=1)
    job = cluster.add_job("mlr", gpus=1)
    cluster.settle()
    (group,) = cluster.groups
    failed = ObservedReservation(
        key=ObjectKey(group.namespace, f"{group.name}-slot-0"),
        uid="1",
        group=group.name,
        slot="a/gpu-0",
        created_seconds=cluster.now,
        problem="Insufficient nvidia.com/gpu",
    )
    cluster.more = {"reservations": {failed.key: failed}}
    cluster.settle()
    assert cluster.places(job) == ["a/gpu-0"], "there is hope for a minute"
    cluster.now += 60
    cluster.settle()
    assert cluster.waits(job) == (
        "waits until a slot is free: node a did not give 1 x GPU: Insufficient nvidia.com/gpu"
    )
    assert not cluster.groups
    cluster.more = {}
    cluster.add_nodes("b", gpus=1)
    cluster.settle()
    assert cluster.places(job) == ["b/gpu-0"]
    cluster.now += 300
    another = cluster.add_job("mlp", gpus=1, sharing={"policy": "Exclusive"})
    cluster.settle()
    assert cluster.places(another) == ["a/gpu-0"]


def test_a_node_whose_reservation_pod_does_not_go_is_left_alone() -> None:
    cluster = Cluster(binding="reservation")
    cluster.add_nodes("a", gpus=1)
    job = cluster.add_job("mlr", gpus=1)
    cluster.settle()
    (group,) = cluster.groups
    stuck = ObservedReservation(
        key=ObjectKey(group.namespace, f"{group.name}-slot-0"),
        uid="1",
        group=group.name,
        slot="a/gpu-0",
        devices=("GPU-1",),
        deleting_since_seconds=cluster.now,
    )
    cluster.more = {"reservations": {stuck.key: stuck}}
    cluster.settle()
    assert cluster.places(job) == ["a/gpu-0"], "it may be about to go"
    cluster.now += 300
    cluster.add_nodes("b", gpus=1)
    cluster.settle()
    assert cluster.places(job) == ["b/gpu-0"]


def test_a_job_without_gpus_takes_no_slot_with_gpus() -> None:
    cluster = Cluster(binding="claim", settings=replace(Cluster().settings, cpu_slots_per_node=0))
    cluster.add_nodes("a", gpus=1)
    job = cluster.add_job("mlr")
    cluster.plan()
    assert cluster.waits(job) == "needs 1 slot, there are none"


def test_device_memory_is_shared_per_device_and_told_per_worker() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", gpus=2, memory_gib=10)
    memory = {"footprint": "16Gi", "minimum": "6Gi"}
    for name in ("one", "two"):
        cluster.add_job(name, GOOD, gpus=2, sharing={"deviceMemory": memory})
    cluster.plan()
    (group,) = cluster.groups.values()
    assert [member.device_memory_bytes for member in group.spec.members] == [10 * 2**30] * 2


@pytest.mark.parametrize(
    ("memory_gib", "usable_mib"),
    [(80, 80 * 1024 - 2458), (16, 16 * 1024 - 492), (8, 8 * 1024 - 256), (None, None)],
)
def test_a_share_of_a_devices_memory_is_left_to_its_driver(
    memory_gib: int | None, usable_mib: int | None
) -> None:
    default = OperatorSettings(sidecar_image="s", server_image="s", device_class="gpu.example.com")
    cluster = Cluster(binding="claim", settings=default)
    cluster.add_nodes("a", gpus=1, memory_gib=memory_gib)
    cluster.add_job("mlr", gpus=1)
    cluster.plan()
    usable = usable_mib and usable_mib * 2**20
    assert {slot.memory_bytes for slot in cluster.memory.snapshot.slots if slot.gpus} == {usable}


@given(st.integers(0, 2**48), st.integers(0, 100), st.integers(0, 2**40))
def test_jobs_get_whole_mebibytes_and_never_the_headroom(
    memory_bytes: int, percent: int, least_bytes: int
) -> None:
    chosen = replace(
        Cluster().settings,
        device_memory_headroom_percent=percent,
        device_memory_headroom_bytes=least_bytes,
    )
    usable = without_headroom(memory_bytes, chosen)
    assert usable is not None
    assert usable % 2**20 == 0
    kept = memory_bytes - usable
    assert usable == 0 or (kept >= least_bytes and 100 * kept >= percent * memory_bytes)
    assert kept < max(least_bytes, memory_bytes * percent / 100) + 2**20 + 1 or usable == 0
