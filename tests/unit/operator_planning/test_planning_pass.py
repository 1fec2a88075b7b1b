"""Jobs of a cluster get groups, keep them, and are told why they wait."""

from dataclasses import replace

import pytest
from planning_cluster import GOOD, Cluster, condition

from harmony_operator.actions import Create, Delete, ReplaceSpec
from harmony_operator.observed import ObjectKey
from harmony_operator.planning.planning_pass import REWORDED_AFTER_SECONDS


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


def test_a_job_whose_status_a_kill_left_unwritten_keeps_its_place_unless_found_invalid() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.settle()
    cluster.set_status(job, conditions=())
    restarted = replace(cluster, memory=type(cluster.memory)())
    assert restarted.plan().steps == ()
    cluster.set_status(job, conditions=(condition("Valid", "False"),))
    cluster.plan()
    assert not cluster.groups


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


def test_a_job_leaves_a_group_of_another_namespace_when_devices_are_bound_within_one() -> None:
    cluster = Cluster(binding="reservation")
    cluster.add_nodes("a", gpus=2)
    job = cluster.add_job("mlr", GOOD, gpus=1)
    cluster.settle()
    cluster.run_pods()
    assert [group.namespace for group in cluster.groups] == ["harmony-system"]
    restarted = replace(cluster, binding="claim", memory=type(cluster.memory)())
    restarted.settle()
    assert restarted.members == [set(), {"mlr"}], "the old group stays while a worker is there"
    restarted.remove_pods(job)
    restarted.settle()
    assert [group.namespace for group in restarted.groups] == ["team"]


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


@pytest.mark.parametrize("anew", [False, True], ids=["meanwhile", "since the operator started"])
def test_a_running_job_on_which_planning_fails_keeps_its_slot_and_its_neighbours(
    anew: bool,
) -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    broken = cluster.add_job("broken", GOOD)
    good = cluster.add_job("good", GOOD)
    cluster.settle()
    cluster.run_pods()
    cluster.jobs[broken] = replace(cluster.jobs[broken], raw_spec={})
    if anew:
        cluster = replace(cluster, memory=type(cluster.memory)())
    assert list(cluster.plan().errors) == [broken]
    late = cluster.add_job("late", GOOD, priorityClassName="high")
    cluster.more["priorities"] = {"high": 7}
    cluster.settle()
    assert cluster.places(broken) == cluster.places(good) == ["a/cpu-0"]
    assert "planning fails on team/broken" in cluster.waits(late)
