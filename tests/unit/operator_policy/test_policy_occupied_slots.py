"""A device's memory is promised once: workers start when those who made way have left."""

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from policy_cluster import KEY, Cluster, job_manifest, time_text

from harmony_api.conditions import ConditionType
from harmony_api.harmony_group import GroupMember

SLOTS = ("node-a/cpu-0", "node-b/cpu-1")


def worker_of(job: str, slot: str, **spec: Any) -> dict[str, Any]:
    """A running worker of another job."""
    return {
        "metadata": {
            "namespace": KEY.namespace,
            "name": f"{job}-worker-0",
            "uid": f"{job}-pod",
            "labels": {
                "harmony.dev/role": "worker",
                "harmony.dev/job-name": job,
                "harmony.dev/job-uid": f"{job}-uid",
                "harmony.dev/group": "g-1",
                "harmony.dev/index": "0",
            },
            "annotations": {"harmony.dev/slot": slot},
            "creationTimestamp": "2027-01-15T08:00:00Z",
        },
        "spec": {"nodeName": slot.partition("/")[0], **spec},
        "status": {"phase": "Running"},
    }


def placed() -> Cluster:
    """A job of two workers that was given slots, and another member of its group."""
    cluster = Cluster(job_manifest(workers=2))
    cluster.settle()
    cluster.place("node-a", "node-b")
    assert cluster.group is not None
    spec = cluster.group.spec
    other = GroupMember(
        job="member",
        namespace=KEY.namespace,
        job_uid="member-uid",
        slot_indices=(0,),
        order=1,
        reason="shares",
    )
    spec = spec.model_copy(update={"members": (*spec.members, other)})
    cluster.group = replace(cluster.group, spec=spec)
    return cluster


def workers(cluster: Cluster) -> set[str]:
    return {name for name in cluster.pods if name.startswith("mlr-worker")}


def test_workers_start_when_the_one_that_made_way_has_left_and_the_condition_says_so() -> None:
    cluster = placed()
    cluster.pods["mlp-worker-0"] = worker_of("mlp", SLOTS[1])
    cluster.settle()
    assert "mlr-server-0" in cluster.pods
    assert not workers(cluster)
    cluster.start("mlr-server-0")
    cluster.settle()
    assert cluster.condition(ConditionType.RUNNING).message == (
        "0 of 2 workers ready; a worker of team/mlp has not left node-b/cpu-1 yet"
    )
    assert cluster.look().again_after_seconds == 30
    del cluster.pods["mlp-worker-0"]
    cluster.settle()
    assert workers(cluster) == {"mlr-worker-0", "mlr-worker-1"}


def test_members_of_the_group_keep_nobody_waiting() -> None:
    cluster = placed()
    cluster.pods["member-worker-0"] = worker_of("member", SLOTS[0])
    cluster.settle()
    assert workers(cluster) == {"mlr-worker-0", "mlr-worker-1"}


others = st.dictionaries(
    st.sampled_from(["member", "mlp", "lda"]),
    st.fixed_dictionaries(
        {
            "slot": st.sampled_from([*SLOTS, "node-a/cpu-9"]),
            "phase": st.sampled_from(["Pending", "Running", "Running", "Failed"]),
            "leaving_seconds": st.sampled_from([None, None, 10, 1000]),
        }
    ),
)


@settings(max_examples=100, deadline=None)
@given(others, st.sets(st.sampled_from(["node-a", "node-b"])), st.booleans())
def test_no_worker_is_made_for_a_slot_that_one_who_is_no_member_uses(
    there: dict[str, dict[str, Any]], silent: set[str], one_runs: bool
) -> None:
    cluster = placed()
    lacking = {0, 1}
    if one_runs:
        cluster.settle()
        cluster.start()
        cluster.delete("mlr-worker-1")
        cluster.reap()
        lacking = {1}
    before = workers(cluster)
    cluster.nodes = {node: node not in silent for node in cluster.nodes}
    blocked = False
    for job, about in there.items():
        pod = worker_of(job, about["slot"])
        pod["status"]["phase"] = about["phase"]
        since = about["leaving_seconds"]
        if since is not None:
            pod["metadata"]["deletionTimestamp"] = time_text(cluster.now - since)
        cluster.pods[pod["metadata"]["name"]] = pod
        lost = since is not None and (since > 300 or pod["spec"]["nodeName"] in silent)
        uses = job != "member" and about["phase"] != "Failed" and not lost
        blocked = blocked or (uses and about["slot"] in {SLOTS[index] for index in lacking})
    cluster.look()
    assert workers(cluster) - before == (
        set() if blocked else {f"mlr-worker-{index}" for index in lacking}
    )
