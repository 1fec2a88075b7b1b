"""Failures: which count, how often a job is tried again, and what its rules say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from policy_cluster import Cluster, foreign_servers, job_manifest

from harmony_api.conditions import ConditionType
from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.policies.conditions import time_of
from harmony_operator.policies.failure import LONGEST_BACKOFF_SECONDS, backoff_end_seconds

RUNNING, FAILED = ConditionType.RUNNING, ConditionType.FAILED


def rule(action: str, **matches: object) -> dict[str, object]:
    return {"action": action, **matches}


def codes(operator: str, *values: int, container: str | None = None) -> dict[str, object]:
    named = {"containerName": container} if container else {}
    return {"onExitCodes": {"operator": operator, "values": list(values), **named}}


def condition(kind: str, status: str = "True") -> dict[str, object]:
    return {"onPodConditions": [{"type": kind, "status": status}]}


@pytest.mark.parametrize(
    ("rules", "exit_code", "conditions", "restarts", "state"),
    [
        pytest.param([], 1, {}, 1, "Starting", id="a failure counts"),
        pytest.param([], 137, {}, 1, "Starting", id="so does one by a signal"),
        pytest.param([], 75, {}, 0, "Starting", id="stopping is no failure"),
        pytest.param(
            [rule("Fail", **codes("NotIn", 0))], 75, {}, 0, "Starting", id="whatever rules say"
        ),
        pytest.param([rule("Fail", **codes("In", 3))], 3, {}, 0, "Failed", id="Fail on a code"),
        pytest.param([rule("Fail", **codes("In", 3))], 4, {}, 1, "Starting", id="not on another"),
        pytest.param(
            [rule("Ignore", **codes("NotIn", 3))], 4, {}, 0, "Starting", id="NotIn matches the rest"
        ),
        pytest.param(
            [rule("Fail", **codes("In", 3, container="server"))], 3, {}, 1, "Starting",
            id="a rule for servers says nothing about workers",
        ),
        pytest.param(
            [rule("Ignore", **codes("In", 3)), rule("Fail", **codes("In", 3))], 3, {}, 0,
            "Starting", id="the first match decides",
        ),
        pytest.param(
            [], 143, {"DisruptionTarget": "True"}, 0, "Starting", id="a disruption is not counted"
        ),
        pytest.param(
            [], 143, {"DisruptionTarget": "False"}, 1, "Starting", id="a condition must be True"
        ),
        pytest.param(
            [rule("Fail", **condition("DisruptionTarget"))], 143, {"DisruptionTarget": "True"}, 0,
            "Failed", id="unless a rule says so",
        ),
        pytest.param(
            [rule("Ignore", **condition("Ready", "False"))], 1, {}, 0, "Starting",
            id="a rule on any condition",
        ),
    ],
)  # fmt: skip
def test_what_follows_from_a_failed_worker(
    rules: list[object], exit_code: int, conditions: dict[str, str], restarts: int, state: str
) -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 2, "rules": rules})).run()
    for kind, status in conditions.items():
        cluster.set_condition("mlr-worker-0", kind, status)
    cluster.exit("mlr-worker-0", exit_code)
    cluster.settle()
    assert (cluster.status.restarts, cluster.status.state) == (restarts, state)
    if state == "Failed":
        assert cluster.reason(FAILED) == "FailurePolicyRule"
    else:
        cluster.pass_time(60)
        assert cluster.created.count("mlr-worker-0") == 2


def test_a_failed_worker_is_replaced_after_a_pause_in_which_its_log_can_be_read() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-worker-0", 1, message="CUDA error: out of memory")
    cluster.settle()
    assert cluster.created.count("mlr-worker-0") == 1
    assert cluster.reason(RUNNING) == "BackingOff"
    assert "worker 0 failed (exit code 1, CUDA error: out of memory)" in (
        cluster.condition(RUNNING).message
    )
    again = cluster.look().again_after_seconds
    assert again is not None
    cluster.pass_time(again)
    assert cluster.created.count("mlr-worker-0") == 2
    assert cluster.created.count("mlr-worker-1") == 1
    assert cluster.reason(RUNNING) == "WorkersRestarting"


def test_a_job_fails_when_it_was_restarted_as_often_as_allowed() -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 2})).run()
    for restarts in (1, 2):
        cluster.exit("mlr-worker-0", 1)
        cluster.settle()
        assert cluster.status.restarts == restarts
        cluster.pass_time(60)
        cluster.start()
    cluster.exit("mlr-worker-0", 1)
    cluster.settle()
    assert cluster.reason(FAILED) == "BackoffLimitExceeded"
    assert "after 2 restarts" in cluster.condition(FAILED).message
    assert cluster.event_reasons.count("BackingOff") == 2
    assert cluster.event_reasons.count("BackoffLimitExceeded") == 1


def test_a_restart_that_a_rule_asks_for_is_counted_and_has_no_limit() -> None:
    rules = [rule("Restart", **codes("In", 3))]
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 1, "rules": rules})).run()
    for restarts in (1, 2, 3):
        cluster.exit("mlr-worker-0", 3)
        cluster.settle()
        assert cluster.status.restarts == restarts
        cluster.pass_time(60)
        cluster.start()
    cluster.exit("mlr-worker-0", 1)
    cluster.settle()
    assert cluster.status.state == "Failed"


def test_workers_that_fail_together_are_each_counted_once() -> None:
    cluster = Cluster(job_manifest(workers=3)).run()
    for worker in range(3):
        cluster.exit(f"mlr-worker-{worker}", 1)
    cluster.settle()
    assert cluster.status.restarts == 3
    cluster.pass_time(60)
    assert cluster.status.restarts == 3
    assert all(cluster.created.count(f"mlr-worker-{worker}") == 2 for worker in range(3))


@settings(deadline=None, max_examples=40)
@given(kills=st.lists(st.one_of(st.none(), st.integers(0, 4)), max_size=12))
def test_failures_are_counted_once_wherever_the_operator_is_killed(
    kills: list[int | None],
) -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-worker-0", 1)
    cluster.exit("mlr-worker-1", 1)
    for killed_after in kills:
        cluster.look(killed_after=killed_after)
        cluster.now += 1
    cluster.settle()
    cluster.pass_time(60)
    assert cluster.status.restarts == 2
    assert cluster.created.count("mlr-worker-0") == cluster.created.count("mlr-worker-1") == 2


def test_a_server_that_fails_counts_and_is_replaced_alone_for_the_others_go_back_to_it() -> None:
    cluster = Cluster(job_manifest(workers=2, servers=2)).run()
    cluster.exit("mlr-server-1", 1)
    cluster.settle()
    cluster.pass_time(60)
    assert cluster.status.restarts == 1
    assert sorted(cluster.created) == [
        "mlr-server-0", "mlr-server-1", "mlr-server-1", "mlr-worker-0", "mlr-worker-1",
    ]  # fmt: skip
    assert cluster.reason(RUNNING) == "ServersRestarting"
    cluster.start()
    cluster.settle()
    assert cluster.reason(RUNNING) == "WorkersRunning"


def test_workers_that_crash_because_a_foreign_server_failed_are_not_counted() -> None:
    cluster = Cluster(job_manifest(workers=2, parameterServers=foreign_servers())).run()
    cluster.exit("mlr-server-0", 1)
    cluster.exit("mlr-worker-0", 1)
    cluster.exit("mlr-worker-1", 1)
    cluster.settle()
    cluster.reap()
    cluster.pass_time(60)
    assert cluster.status.restarts == 1
    assert sorted(cluster.created) == 2 * ["mlr-server-0"] + 2 * ["mlr-worker-0"] + 2 * [
        "mlr-worker-1"
    ]


def test_servers_that_are_done_before_the_last_worker_are_no_loss() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-server-0")
    cluster.settle()
    assert cluster.created.count("mlr-server-0") == 1
    cluster.exit("mlr-worker-0")
    cluster.exit("mlr-worker-1")
    cluster.settle()
    assert cluster.status.state == "Succeeded"


def test_a_worker_lost_after_the_servers_were_done_means_that_all_start_over() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.exit("mlr-server-0")
    cluster.exit("mlr-worker-0")
    cluster.settle()
    cluster.delete("mlr-worker-1")
    cluster.settle()
    cluster.reap()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0", "mlr-worker-1"}
    assert all(cluster.created.count(name) == 2 for name in cluster.pods)
    assert cluster.status.succeeded_workers == ()


@settings(deadline=None, max_examples=40)
@given(kills=st.lists(st.one_of(st.none(), st.integers(0, 5)), max_size=10))
def test_a_job_starts_over_wherever_the_operator_is_killed(kills: list[int | None]) -> None:
    cluster = Cluster(job_manifest(workers=2, parameterServers=foreign_servers(2))).run()
    old = {cluster.pod(name).uid for name in cluster.pods}
    cluster.delete("mlr-server-1")
    cluster.reap()
    for killed_after in kills:
        cluster.look(killed_after=killed_after)
        cluster.reap()
    for _ in range(5):
        cluster.settle()
        cluster.reap()
    assert len(cluster.pods) == 4
    assert not {cluster.pod(name).uid for name in cluster.pods} & old


@given(restarts=st.integers(1, 1_000_000))
def test_pauses_grow_and_are_bounded(restarts: int) -> None:
    def pause(count: int) -> float:
        status = HarmonyJobStatus(restarts=count, last_restart_time=time_of(1000))
        return backoff_end_seconds(status) - 1000

    assert 0 < pause(restarts) <= pause(restarts + 1) <= LONGEST_BACKOFF_SECONDS


def test_tries_that_do_not_count_come_at_longer_and_longer_pauses_until_one_lasts() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()

    def pause() -> float:
        """Both workers leave by themselves, one after the other; return when they are back."""
        created = cluster.now
        for name in ("mlr-worker-0", "mlr-worker-1"):
            cluster.start(name)
            cluster.now += 1
            cluster.exit(name, 75)
            cluster.settle()
        before = len(cluster.created)
        while len(cluster.created) < before + 2:
            cluster.pass_time(1)
        return cluster.now - created

    assert [pause() for _ in range(6)] == [30, 60, 120, 240, 300, 300]
    cluster.start()
    cluster.now += 400
    cluster.exit("mlr-worker-0", 75)
    cluster.settle()
    assert cluster.status.uncounted_tries == 1
    assert cluster.status.restarts == 0


def test_a_node_that_refuses_a_worker_is_asked_less_and_less_often() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.delete("mlr-worker-0")
    cluster.reap()
    cluster.settle()
    for tries in (1, 2, 3):
        created = cluster.now
        cluster.fail_without_container("mlr-worker-0", "OutOfcpu")
        cluster.settle()
        assert cluster.status.uncounted_tries == tries
        cluster.pass_time(30 * 2 ** (tries - 1))
        assert cluster.pod("mlr-worker-0").created_seconds > created
