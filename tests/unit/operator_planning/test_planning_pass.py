"""Jobs of a cluster get groups, keep them, and are told why they wait."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from planning_cluster import Cluster, condition, profile

from harmony_operator.actions import Create, Delete, ReplaceSpec
from harmony_operator.observed import ObjectKey, ObservedClaim, ObservedReservation, Taint
from harmony_operator.planning.capacity import without_headroom
from harmony_operator.planning.planning_pass import REWORDED_AFTER_SECONDS
from harmony_operator.settings import OperatorSettings

GOOD = profile(100, 50, 50)


def test_a_job_gets_a_group_of_its_own_on_a_free_node() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    job = cluster.add_job("mlr")
    result = cluster.plan()
    assert result.why == "team/mlr joined"
    assert cluster.places(job) == ["a/cpu-0"]
    (group,) = cluster.groups.values()
    assert group.spec.generation == 1
    assert group.spec.members[0].reason == "alone on a/cpu-0: nobody shares it now"


def test_a_pass_that_changes_nothing_takes_no_step_and_gives_no_reason() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr", GOOD)
    cluster.add_job("mlp", GOOD)
    cluster.settle()
    again = cluster.plan()
    assert (again.steps, again.why, again.changed) == ((), None, frozenset())


def test_an_operator_that_starts_anew_moves_nobody() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    for name in ("one", "two", "three"):
        cluster.add_job(name, GOOD)
    cluster.settle()
    restarted = replace(cluster, memory=type(cluster.memory)())
    assert restarted.plan().steps == ()


def test_a_name_that_was_tried_before_a_kill_is_tried_again() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr")
    restarted = replace(cluster, memory=type(cluster.memory)())
    assert cluster.decide().steps == restarted.decide().steps


def test_a_step_that_failed_is_taken_by_the_next_pass() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr")
    failed = cluster.decide().steps
    again = cluster.decide()
    assert again.steps == failed
    assert again.why is None


@pytest.mark.parametrize("unknown", ["not looked at", "invalid"])
def test_a_job_that_was_not_found_valid_takes_no_part(unknown: str) -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    seen = (condition("Valid", "False"),) if unknown == "invalid" else ()
    cluster.set_status(job, conditions=seen)
    assert cluster.plan().steps == ()
    cluster.set_status(job, conditions=(condition("Valid"),))
    cluster.plan()
    assert cluster.places(job)


def test_complementary_jobs_share_a_slot_and_the_words_say_so() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr", GOOD)
    cluster.add_job("mlp", GOOD)
    cluster.plan()
    (group,) = cluster.groups.values()
    reasons = {member.job: member.reason for member in group.spec.members}
    assert reasons["mlp"].startswith(
        "shares a/cpu-0 with team/mlr: predicted cycle 200 ms for 400 ms in turn"
    )
    assert [member.slot_indices for member in group.spec.members] == [(0,), (0,)]


def test_a_group_keeps_its_name_while_members_come_and_go() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first = cluster.add_job("mlr", GOOD)
    cluster.plan()
    (name,) = cluster.groups
    cluster.add_job("mlp", GOOD)
    (step,) = cluster.plan().steps
    assert isinstance(step, ReplaceSpec)
    cluster.finish(first)
    cluster.plan()
    assert list(cluster.groups) == [name]
    assert cluster.groups[name].spec.generation == 3
    assert cluster.members == [{"mlp"}]


def test_a_group_that_lost_its_last_member_is_deleted() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.plan()
    cluster.run_pods()
    cluster.finish(job)
    (step,) = cluster.plan().steps
    assert isinstance(step, Delete)


def test_a_group_stays_without_members_until_its_last_worker_has_left() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.plan()
    cluster.run_pods()
    cluster.suspend(job)
    waiting = cluster.add_job("mlp")
    (step,) = cluster.plan().steps
    assert isinstance(step, ReplaceSpec)
    assert cluster.members == [set()]
    assert cluster.waits(waiting) == (
        "waits until a slot is free: a worker of team/mlr has not left a/cpu-0 yet"
    )
    cluster.remove_pods(job)
    deleted, created = cluster.plan().steps
    assert isinstance(deleted, Delete)
    assert isinstance(created, Create)
    assert cluster.places(waiting) == ["a/cpu-0"]


def test_a_group_that_somebody_deleted_comes_back() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.plan()
    cluster.groups.clear()
    cluster.plan()
    assert cluster.places(job) == ["a/cpu-0"]


def test_a_job_that_was_made_anew_under_its_old_name_gets_the_place_of_the_old_one() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr")
    cluster.plan()
    job = cluster.add_job("mlr")
    cluster.plan()
    (group,) = cluster.groups.values()
    assert [member.job_uid for member in group.spec.members] == [cluster.jobs[job].uid]


def test_jobs_about_which_something_new_is_said_are_named() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("mlr", GOOD)
    other = cluster.add_job("mlp", GOOD, sharing={"policy": "Exclusive"})
    assert cluster.plan().changed == {other}
    assert cluster.waits(other) == (
        "waits until a slot is free: sharing.policy of team/mlp is Exclusive"
    )
    cluster.add_nodes("b")
    assert cluster.plan().changed == {other}
    assert cluster.places(other) == ["b/cpu-0"]


def test_a_job_that_no_node_could_hold_is_told_apart_from_one_that_waits() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", gpus=2)
    small = cluster.add_job("small", gpus=1)
    large = cluster.add_job("large", gpus=2)
    huge = cluster.add_job("huge", gpus=4)
    cluster.plan()
    assert cluster.places(small)
    assert cluster.waits(large).startswith("waits until a slot is free")
    assert cluster.waits(huge) == "needs 1 slot of 4 GPUs, there are none"
    assert cluster.memory.remarks.never_fitting == {huge}


def test_a_job_of_high_priority_takes_the_place_of_one_of_low_priority() -> None:
    cluster = Cluster(more={"priorities": {"high": 1000}})
    cluster.add_nodes("a")
    low = cluster.add_job("low", sharing={"policy": "Exclusive"})
    cluster.plan()
    cluster.run_pods()
    high = cluster.add_job("high", priorityClassName="high")
    result = cluster.plan()
    assert cluster.members == [set(), {"high"}]
    assert cluster.places(high) == ["a/cpu-0"]
    assert result.remarks.preempted_by == {cluster.jobs[low].uid: "team/high"}
    assert cluster.waits(low) == (
        "made way for team/high, whose priority 1000 is above its 0; "
        "waits until a slot is free: sharing.policy of team/low is Exclusive"
    )
    cluster.add_job("other")
    assert cluster.plan().remarks.preempted_by == {cluster.jobs[low].uid: "team/high"}
    cluster.run_pods()
    cluster.finish(high)
    cluster.plan()
    assert cluster.places(low) or cluster.places(ObjectKey("team", "other"))


def test_namespaces_share_a_slot_only_where_the_binding_crosses_them() -> None:
    for binding, shared in (("claim", False), ("none", True)):
        cluster = Cluster(binding=binding)
        cluster.add_nodes("a")
        first = cluster.add_job("mlr", GOOD, namespace="red")
        second = cluster.add_job("mlr", GOOD, namespace="blue")
        cluster.plan()
        (group,) = cluster.groups
        assert cluster.places(first)
        assert bool(cluster.places(second)) is shared
        assert group.namespace == ("harmony-system" if shared else "red")
        if not shared:
            assert "only one namespace can share a device" in cluster.waits(second)


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


def test_a_pair_that_is_slower_than_in_turn_is_split_and_stays_apart() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first = cluster.add_job("mlr", GOOD)
    second = cluster.add_job("mlp", GOOD)
    cluster.plan()
    cluster.run_pods()
    cluster.observe(0, first, second)
    cluster.plan()
    cluster.now += 60
    cluster.observe(100, first, second)
    assert cluster.plan().why is None, "once may be chance"
    cluster.now += 60
    cluster.observe(200, first, second)
    result = cluster.plan()
    assert result.why == "team/mlp and team/mlr are slower together than in turn"
    assert result.remarks.separated_from == {
        cluster.jobs[first].uid: {cluster.jobs[second].uid},
        cluster.jobs[second].uid: {cluster.jobs[first].uid},
    }
    assert cluster.members == [{"mlr"}]
    assert cluster.waits(second).endswith("team/mlr was slower with team/mlp than in turn")


def test_separated_pairs_survive_the_operator_in_the_status() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first = cluster.add_job("mlr", GOOD)
    second = cluster.add_job("mlp", GOOD)
    cluster.set_status(second, separated_from=(cluster.jobs[first].uid,))
    cluster.plan()
    assert cluster.members == [{"mlr"}]


def test_a_job_that_is_created_again_is_kept_apart_from_nobody() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first, second = cluster.add_job("mlr", GOOD), cluster.add_job("mlp", GOOD)
    old = cluster.jobs[first].uid
    cluster.memory.separated = {old: frozenset({cluster.jobs[second].uid})}
    cluster.set_status(second, separated_from=(old,))
    cluster.plan()
    assert cluster.members == [{"mlr"}]
    del cluster.jobs[first]
    cluster.plan()
    cluster.add_job("mlr", GOOD)
    result = cluster.plan()
    assert cluster.members == [{"mlp", "mlr"}]
    assert result.remarks.separated_from == {cluster.jobs[second].uid: frozenset()}
    assert not cluster.memory.separated


def test_a_groups_status_says_what_was_expected_and_what_came() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    pair = [cluster.add_job(name, GOOD) for name in ("mlr", "mlp")]
    cluster.settle()
    cluster.run_pods()
    (key,) = cluster.groups
    status = cluster.groups[key].status
    assert status.predicted_cycle_microseconds == 200_000
    assert status.measured_cycle_microseconds is None
    assert status.columns is not None
    assert status.columns.members == "team/mlp, team/mlr"
    assert (status.columns.slots, status.columns.predicted) == ("1 x CPU", "200ms")
    for at, iterations in ((0, 0), (24, 100), (24.1, 200)):
        cluster.now += at
        cluster.observe(iterations, *pair)
        result = cluster.plan()
    assert cluster.groups[key].status.measured_cycle_microseconds == 240_000
    assert cluster.groups[key].status.correction_percent == 120
    assert result.steps == ()


def test_what_was_measured_of_a_group_survives_the_operator() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    for name in ("mlr", "mlp"):
        cluster.add_job(name, GOOD)
    cluster.settle()
    ((key, group),) = cluster.groups.items()
    status = group.status.model_copy(update={"correction_percent": 140})
    cluster.groups[key] = replace(group, status=status)
    cluster.memory = type(cluster.memory)()
    cluster.plan()
    assert list(cluster.memory.speeds.corrections.values()) == [1.4]


def test_why_jobs_wait_is_said_anew_once_a_minute_at_most() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    holder = cluster.add_job("holder", sharing={"policy": "Exclusive"})
    queued = cluster.add_job("queued", sharing={"policy": "Exclusive"})
    cluster.settle()
    said = cluster.waits(queued)
    cluster.add_job("urgent", sharing={"policy": "Exclusive"}, priorityClassName="high")
    cluster.more["priorities"] = {"high": 7}
    cluster.finish(holder)
    assert queued not in cluster.plan().changed
    assert cluster.waits(queued) == said
    cluster.now += REWORDED_AFTER_SECONDS
    assert queued in cluster.plan().changed
    assert cluster.waits(queued) != said


def test_a_job_on_which_planning_fails_is_left_out_and_told_so() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    broken = cluster.add_job("broken")
    good = cluster.add_job("good")
    cluster.jobs[broken] = replace(cluster.jobs[broken], raw_spec={})
    result = cluster.plan()
    assert list(result.errors) == [broken]
    assert cluster.places(good)
    assert not cluster.places(broken)
    assert "KeyError: 'workers'" in cluster.waits(broken)
    assert not cluster.plan().errors, "it is news once"
