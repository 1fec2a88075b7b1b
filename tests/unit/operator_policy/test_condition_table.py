"""Walks the tables of docs/conditions.md: each row is brought about, and each reason is in one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from policy_cluster import KEY, Cluster, foreign_servers, job_manifest

from harmony_api import conditions
from harmony_api.conditions import ConditionType
from harmony_api.harmony_group import GroupSlot
from harmony_operator.actions import Create, Try
from harmony_operator.observed import ApiProblem
from harmony_operator.policies.running import UNSCHEDULABLE_SECONDS

PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"
REASONS: dict[ConditionType, Any] = {
    ConditionType.VALID: conditions.ValidReason,
    ConditionType.ADMITTED: conditions.AdmittedReason,
    ConditionType.RUNNING: conditions.RunningReason,
    ConditionType.SUSPENDED: conditions.SuspendedReason,
    ConditionType.SUCCEEDED: conditions.SucceededReason,
    ConditionType.FAILED: conditions.FailedReason,
}
BAD_RULE = {
    "action": "Fail", "onExitCodes": {"containerName": "x", "operator": "In", "values": [3]},
}  # fmt: skip


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading of the page."""
    section = re.split(r"^#+ ", PAGE.read_text(), flags=re.MULTILINE)
    text = next(part for part in section if part.startswith(f"{heading}\n"))
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def cluster(workers: int = 1, **spec: Any) -> Cluster:
    return Cluster(job_manifest(workers=workers, **spec))


def new() -> Cluster:
    return cluster()


def invalid() -> Cluster:
    made = cluster(failurePolicy={"rules": [BAD_RULE]})
    made.settle()
    return made


def pending() -> Cluster:
    made = cluster()
    made.settle()
    return made


def waiting() -> Cluster:
    made = pending()
    made.unplace()
    made.settle()
    return made


def starting() -> Cluster:
    made = pending()
    made.place("node-a")
    made.settle()
    return made


def running() -> Cluster:
    return cluster(workers=2).run()


def stopping(act: Callable[[Cluster], None]) -> Callable[[], Cluster]:
    def made() -> Cluster:
        one = running()
        act(one)
        one.settle()
        return one

    return made


def stopped(act: Callable[[Cluster], None]) -> Callable[[], Cluster]:
    def made() -> Cluster:
        one = stopping(act)()
        one.stop_obediently()
        one.settle()
        return one

    return made


def succeeded() -> Cluster:
    made = running()
    all_succeed(made)
    made.settle()
    return made


def failed() -> Cluster:
    made = running()
    fail_beyond_limit(made)
    made.settle()
    return made


def suspend(one: Cluster) -> None:
    one.edit(suspend=True)


def preempt(one: Cluster) -> None:
    one.unplace("team/urgent took its slots", preempted_by={"job-uid": "team/urgent"})


def move(one: Cluster) -> None:
    one.place("node-b", "node-a", name="g-2")


def place(one: Cluster) -> None:
    one.place("node-a", "node-b")


def share_a_narrow_claim(one: Cluster) -> None:
    one.manifest["spec"] |= {
        "parameterServers": {"replicas": 2}, "checkpoint": {"volumeClaimName": "ckpt"},
    }  # fmt: skip


def name_a_claim_that_is_not_there(one: Cluster) -> None:
    one.manifest["spec"]["checkpoint"] = {"volumeClaimName": "kcpt"}


def create_for_a_queue(one: Cluster) -> None:
    suspend(one)
    one.manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}


def never_fit(one: Cluster) -> None:
    one.unplace("needs 8 GPUs", never_fitting=frozenset({KEY}))


def ask_for_gpus(one: Cluster) -> None:
    one.pods.clear()
    group = one.group
    assert group is not None
    slots = (GroupSlot(name="node-a/gpu-0", node="node-a", gpus=1),)
    spec = group.spec.model_copy(update={"slots": slots})
    one.group = type(group)(**{**vars(group), "spec": spec})


def refuse(status: int, reason: str, message: str) -> Callable[[Cluster], None]:
    def act(one: Cluster) -> None:
        one.pods.clear()
        problem = ApiProblem(status=status, reason=reason, message=message, what="create Pod a/b")
        one.refuse = lambda step: problem if isinstance(step, Create) else None

    return act


def refuse_to_try(one: Cluster) -> None:
    problem = ApiProblem(status=403, reason="", message="policy", what="create", rehearsed=True)
    one.refuse = lambda step: problem if isinstance(step, Try) else None


def pull_no_image(one: Cluster) -> None:
    one.wait_in_container("mlr-worker-0", "ErrImagePull", "not found")


def find_no_node(one: Cluster) -> None:
    words = {"reason": "Unschedulable", "message": "0/2 nodes are available"}
    one.set_condition("mlr-worker-0", "PodScheduled", "False", **words)
    assert one.reason(ConditionType.RUNNING) != "Unschedulable", "a claim may be on its way"
    one.pass_time(UNSCHEDULABLE_SECONDS)


def all_succeed(one: Cluster) -> None:
    one.exit("mlr-worker-0")
    one.exit("mlr-worker-1")


def chief_succeeds(one: Cluster) -> None:
    one.edit(completion={"success": "ChiefWorker"})
    one.exit("mlr-worker-0")


def fail_beyond_limit(one: Cluster) -> None:
    one.edit(failurePolicy={"backoffLimit": 0})
    one.exit("mlr-worker-0", 1)


def fail_by_a_rule(one: Cluster) -> None:
    rule = {"action": "Fail", "onExitCodes": {"operator": "In", "values": [3]}}
    one.edit(failurePolicy={"rules": [rule]})
    one.exit("mlr-worker-0", 3)


def fail_and_wait(one: Cluster) -> None:
    one.exit("mlr-worker-0", 1)
    one.settle()
    one.now += 2


def run_late(one: Cluster) -> None:
    one.edit(activeDeadlineSeconds=10)
    one.now += 10


def silence_a_node(one: Cluster) -> None:
    one.lose_node("node-b")
    one.set_condition("mlr-worker-1", "Ready", "False")


def correct(one: Cluster) -> None:
    one.edit(failurePolicy={})


BEFORE: dict[str, Callable[[], Cluster]] = {
    "new": new,
    "Invalid": invalid,
    "Pending": pending,
    "Waiting": waiting,
    "Starting": starting,
    "Running": running,
    "Stopping to move": stopping(move),
    "Stopping without slots": stopping(lambda one: one.unplace()),
    "Stopping for preemption": stopping(preempt),
    "Stopping for suspension": stopping(suspend),
    "Preempted": stopped(preempt),
    "Suspended": stopped(lambda one: (suspend(one), one.unplace())[0]),
    "Succeeded": succeeded,
    "Failed": failed,
}
SEEN: dict[str, Callable[[Cluster], Any]] = {
    "the spec can be carried out": lambda one: None,
    "a field cannot be carried out": lambda one: one.edit(failurePolicy={"rules": [BAD_RULE]}),
    "a pod template is no valid pod": lambda one: one.edit(
        parameterServers={"template": {"spec": {"containers": [{"name": "server"}]}}}
    ),
    "the API server refuses its pods": refuse_to_try,
    "its checkpoint's claim does not exist": name_a_claim_that_is_not_there,
    "several servers share a claim that one node can write": share_a_narrow_claim,
    "its priority class does not exist": lambda one: one.edit(priorityClassName="urgent"),
    "it is created suspended": suspend,
    "it is created suspended, for a queue": create_for_a_queue,
    "the mistake is corrected": correct,
    "the plan gives it slots": place,
    "the plan gives it no slots": lambda one: one.unplace(),
    "no slot could ever hold it": never_fit,
    "its spec suspends it": suspend,
    "its spec resumes it": lambda one: (setattr(one, "memory", type(one.memory)()),
                                        one.edit(suspend=False)),
    "its servers are ready": lambda one: one.start("mlr-server-0"),
    "servers and workers are ready": lambda one: one.start(),
    "its GPUs cannot be bound": ask_for_gpus,
    "the scheduler finds no node": find_no_node,
    "an image cannot be pulled": pull_no_image,
    "a quota refuses a pod": refuse(403, "Forbidden", "exceeded quota: small"),
    "the API server refuses a pod": refuse(422, "Invalid", "spec.containers: wrong"),
    "a node refuses a pod": lambda one: one.fail_without_container("mlr-worker-0", "OutOfcpu"),
    "a name is taken": refuse(409, "AlreadyExists", "services mlr already exists"),
    "a worker fails": lambda one: one.exit("mlr-worker-0", 1),
    "the pause after a failure is over": fail_and_wait,
    "a worker is evicted": lambda one: one.delete("mlr-worker-0"),
    "a node does not answer": silence_a_node,
    "a server is lost": lambda one: one.delete("mlr-server-0"),
    "the operator fails on it": lambda one: setattr(one, "error", KeyError("name")),
    "the plan moves it": move,
    "the plan takes its slots": lambda one: one.unplace(),
    "a job of higher priority takes its slots": preempt,
    "a mistake is made in its spec": lambda one: one.edit(failurePolicy={"rules": [BAD_RULE]}),
    "the last worker has stopped": Cluster.stop_obediently,
    "all workers succeed": all_succeed,
    "the chief succeeds, and that is the goal": chief_succeeds,
    "a worker fails beyond the limit": fail_beyond_limit,
    "a worker fails as a rule forbids": fail_by_a_rule,
    "its time is over": run_late,
    "its pods are deleted": lambda one: one.pods.clear(),
}  # fmt: skip
TRANSITIONS = rows("Transitions")


@pytest.mark.parametrize(
    ("before", "seen", "after", "state"), TRANSITIONS, ids=lambda cell: cell.replace("`", "")[:60]
)
def test_a_transition_is_as_the_table_says(before: str, seen: str, after: str, state: str) -> None:
    one = BEFORE[before]()
    assert before.split(maxsplit=1)[0] in ("new", one.status.state)
    SEEN[seen](one)
    one.settle()
    wanted = dict(cell.split("=") for cell in after.replace("`", "").split(", "))
    found = {
        kind: f"{one.condition(ConditionType(kind)).status}/{one.reason(ConditionType(kind))}"
        for kind in wanted
    }
    assert found == wanted
    assert one.status.state == state


def test_every_reason_is_in_a_transition_and_explained() -> None:
    in_transitions = set(re.findall(r"(\w+)=\w+/(\w+)", " ".join(row[2] for row in TRANSITIONS)))
    for kind, reasons in REASONS.items():
        explained = {row[1].strip("`"): (row[0], row[2]) for row in rows(kind.value)}
        assert {reason: meaning for reason, (_, meaning) in explained.items()} == {
            reason.value: reason.meaning for reason in reasons
        }
        assert {reason for one, reason in in_transitions if one == kind} == set(explained)
        statuses = {
            (row_kind, reason): status
            for row in TRANSITIONS
            for row_kind, status, reason in re.findall(r"(\w+)=(\w+)/(\w+)", row[2])
        }
        assert all(statuses[kind, reason] == status for reason, (status, _) in explained.items())


def test_the_page_names_every_condition_with_its_meaning() -> None:
    text = PAGE.read_text()
    assert all(f"### {kind}\n\n{kind.meaning}\n" in text for kind in ConditionType)


def test_all_six_conditions_are_there_from_the_first_pass_on() -> None:
    for made in BEFORE.values():
        one = made()
        one.settle()
        assert [condition.type for condition in one.status.conditions] == list(ConditionType)


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    one = starting()
    before = one.condition(ConditionType.RUNNING)
    one.now += 100
    one.start("mlr-server-0")
    one.settle()
    after = one.condition(ConditionType.RUNNING)
    assert before.reason != after.reason
    assert before.last_transition_time == after.last_transition_time
    one.start()
    one.settle()
    running = one.condition(ConditionType.RUNNING)
    assert running.last_transition_time.timestamp() == one.now


def test_a_lost_foreign_server_is_told_as_such() -> None:
    one = Cluster(job_manifest(parameterServers=foreign_servers())).run()
    one.delete("mlr-server-0")
    one.look()
    assert "a server's state was lost" in one.condition(ConditionType.RUNNING).message
