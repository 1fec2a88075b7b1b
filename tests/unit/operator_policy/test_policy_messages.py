"""What a job's conditions say: no figure that only flickers, no trouble that is none."""

from dataclasses import replace

import pytest
from policy_cluster import SETTINGS, Cluster, job_manifest, time_text

from harmony_api.conditions import ConditionType
from harmony_operator.actions import Create
from harmony_operator.observed import ApiProblem
from harmony_operator.plan_memory import PlanMemory
from harmony_operator.policies.running import SLOW_START_SECONDS, UNREADY_SECONDS
from harmony_operator.reconcile import reconcile
from harmony_operator.sentences import without_figures

RUNNING = ConditionType.RUNNING


def admitted(workers: int = 1) -> Cluster:
    cluster = Cluster(job_manifest(workers=workers))
    cluster.settle()
    cluster.place(*["node-a"] * workers)
    cluster.settle()
    return cluster


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("0/8 nodes are available: 1 low on cpu", "0/9 nodes are available: 4 low on cpu", True),
        ("back-off 1m20s restarting", "back-off 2m40s restarting", True),
        ("used: pods=10, limited: pods=12", "used: pods=11, limited: pods=12", True),
        ("create Pod team/mlr-worker-0: no", "create Pod team/mlr-worker-1: no", False),
        ("worker 0 was lost", "worker 1 was lost", False),
        ("1 Insufficient cpu", "1 Insufficient memory", False),
    ],
)  # fmt: skip
def test_figures_are_no_news_and_names_are(one: str, other: str, same: bool) -> None:
    assert (without_figures(one) == without_figures(other)) is same


def test_a_failure_is_told_as_one_even_while_another_pod_has_trouble() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.events.clear()
    cluster.delete("mlr-worker-1")
    cluster.reap()
    cluster.settle()
    cluster.start("mlr-worker-1", ready=False)
    cluster.wait_in_container("mlr-worker-1", "ImagePullBackOff", "not found")
    cluster.exit("mlr-worker-0", 3)
    cluster.settle()
    assert cluster.status.restarts == 1
    told = [event for event in cluster.events if event.reason == "BackingOff"]
    assert ["exit code 3" in event.message for event in told] == [True]


def test_a_scheduler_that_counts_anew_with_every_try_writes_no_status() -> None:
    cluster = admitted()
    cluster.start("mlr-server-0")
    for free in range(1, 4):
        words = f"0/{free} nodes are available: {free} Insufficient cpu"
        cluster.set_condition("mlr-worker-0", "PodScheduled", "False", reason="Unschedulable",
                              message=words)  # fmt: skip
        cluster.pass_time(20)
        if free == 1:
            writes = cluster.status_writes
    assert cluster.reason(RUNNING) == "Unschedulable"
    assert cluster.status_writes == writes


def test_a_quota_whose_use_changes_writes_no_status() -> None:
    cluster = Cluster(job_manifest())
    cluster.settle()
    cluster.place("node-a")
    used = 0

    def refuse(step: object) -> ApiProblem | None:
        words = f"exceeded quota: small, used: pods={used}, limited: pods=1"
        problem = ApiProblem(status=403, reason="Forbidden", message=words, what="create Pod a/b")
        return problem if isinstance(step, Create) else None

    cluster.refuse = refuse
    cluster.look()
    writes = cluster.status_writes
    used = 1
    cluster.look()
    assert cluster.reason(RUNNING) == "QuotaExceeded"
    assert cluster.status_writes == writes


def test_a_pod_that_does_not_start_on_its_node_is_told_of_in_time() -> None:
    cluster = admitted()
    cluster.start("mlr-server-0")
    cluster.pods["mlr-worker-0"]["spec"]["nodeName"] = "node-a"
    cluster.wait_in_container("mlr-worker-0", "ContainerCreating")
    cluster.set_condition("mlr-worker-0", "PodScheduled", "True",
                          lastTransitionTime=time_text(cluster.now))  # fmt: skip
    cluster.settle()
    assert "describe" not in cluster.condition(RUNNING).message
    assert cluster.look().again_after_seconds == SLOW_START_SECONDS
    cluster.pass_time(SLOW_START_SECONDS)
    condition = cluster.condition(RUNNING)
    assert condition.reason == "WorkersStarting"
    assert "worker 0 has been on node-a" in condition.message
    assert "kubectl describe pod mlr-worker-0" in condition.message
    writes = cluster.status_writes
    cluster.pass_time(100)
    assert cluster.status_writes == writes


def test_a_place_that_was_lost_before_anybody_was_told_of_it_is_no_news() -> None:
    cluster = Cluster(job_manifest())
    cluster.settle()
    cluster.unplace()
    cluster.settle()
    assert cluster.event_reasons == ["WaitingForSlot"]
    cluster.place("node-a")
    placed = cluster.look(killed_after=0).status
    assert placed is not None
    assert placed.state == "Starting"
    cluster.unplace()
    view = cluster.view()
    job = replace(view.job, status=placed, unlike=view.job.status)
    again = reconcile(replace(view, job=job), SETTINGS)
    assert again.status is not None
    assert again.status.state == "Waiting"
    assert not again.events


def unready(cluster: Cluster) -> None:
    cluster.set_condition("mlr-worker-0", "Ready", "False",
                          lastTransitionTime=time_text(cluster.now))  # fmt: skip
    cluster.settle()


def test_a_probe_that_fails_for_a_moment_is_no_end_of_running() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.events.clear()
    for _ in range(3):
        unready(cluster)
        assert cluster.status.state == "Running"
        cluster.now += UNREADY_SECONDS / 2
        cluster.start("mlr-worker-0")
        cluster.settle()
    assert not cluster.events


def test_a_worker_that_stays_unready_is_not_said_to_be_replaced() -> None:
    cluster = Cluster(job_manifest()).run()
    unready(cluster)
    assert cluster.look().again_after_seconds == UNREADY_SECONDS
    cluster.pass_time(UNREADY_SECONDS)
    assert cluster.reason(RUNNING) == "WorkersStarting"
    assert cluster.condition(RUNNING).message == "0 of 1 worker ready"


def test_an_error_of_the_operator_is_told_once_and_taken_back() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.events.clear()
    cluster.error = KeyError("name")
    cluster.settle()
    cluster.settle()
    assert cluster.condition(RUNNING).status == "Unknown"
    assert "KeyError: 'name'" in cluster.condition(RUNNING).message
    assert cluster.event_reasons == ["InternalError"]
    cluster.error = None
    cluster.settle()
    assert cluster.status.state == "Running"


def test_the_partners_to_keep_apart_from_come_to_rest_and_are_forgotten_when_gone() -> None:
    cluster = Cluster(job_manifest()).run()

    def keep_apart(uids: set[str]) -> tuple[str, ...]:
        cluster.memory = PlanMemory(separated_from={"job-uid": frozenset(uids)})
        cluster.settle()
        return cluster.status.separated_from

    many = {f"uid-{number:03}" for number in range(300)}
    first = keep_apart({"uid-299"})
    full = keep_apart(many)
    assert (first, len(full), full[0]) == (("uid-299",), 256, "uid-299")
    assert keep_apart(many | {"uid-000-new"}) == full
    left = keep_apart(many - {"uid-299"})
    assert "uid-299" not in left
    assert len(left) == 256
    cluster.memory = PlanMemory()
    cluster.settle()
    assert cluster.status.separated_from == left, "the planner has not spoken yet"
