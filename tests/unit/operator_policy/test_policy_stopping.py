"""Suspension, preemption and moves: workers stop together, and start in their new place."""

import pytest
from policy_cluster import CLAIM, Cluster, job_manifest

from harmony_api.conditions import ConditionType
from harmony_operator.policies.stopping import LISTENS_WITHIN_SECONDS, STOP_WITHIN_SECONDS

SUSPENDED, RUNNING, ADMITTED = (
    ConditionType.SUSPENDED, ConditionType.RUNNING, ConditionType.ADMITTED,
)  # fmt: skip
WORKERS = ("mlr-worker-0", "mlr-worker-1")


def told(cluster: Cluster) -> set[str]:
    return {name for name in cluster.pods if cluster.pod(name).stop_asked_seconds is not None}


def test_a_suspended_job_stops_at_an_iteration_and_frees_its_slots_but_keeps_its_servers() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.edit(suspend=True)
    cluster.settle()
    assert told(cluster) == set(WORKERS)
    assert cluster.reason(SUSPENDED) == cluster.reason(RUNNING) == "Stopping"
    cluster.unplace()
    cluster.settle()
    cluster.exit("mlr-worker-0", 75)
    cluster.settle()
    assert cluster.reason(SUSPENDED) == "Stopping"
    cluster.exit("mlr-worker-1", 75)
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0"}
    assert (cluster.status.state, cluster.status.restarts) == ("Suspended", 0)
    assert cluster.reason(ADMITTED) == "Suspended"
    assert "no checkpoint volume" in cluster.condition(SUSPENDED).message


def test_a_suspended_job_with_a_checkpoint_gives_up_its_servers_after_its_workers() -> None:
    cluster = Cluster(job_manifest(workers=2, checkpoint={"volumeClaimName": "ckpt"})).run()
    cluster.edit(suspend=True)
    cluster.settle()
    assert cluster.pod("mlr-server-0").deleting_since_seconds is None
    cluster.stop_obediently()
    cluster.settle()
    assert cluster.pod("mlr-server-0").deleting_since_seconds is not None
    assert cluster.condition(SUSPENDED).status == "False"
    assert "snapshot" in cluster.condition(SUSPENDED).message
    cluster.reap()
    cluster.settle()
    assert cluster.status.state == "Suspended"


def test_a_stop_is_told_once_though_sidecars_outlive_their_workers() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.exit("mlr-worker-0", 75)
    cluster.pods["mlr-worker-0"]["status"]["phase"] = "Running"
    cluster.settle()
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None
    cluster.reap()
    cluster.settle()
    assert cluster.status.state == "Suspended"
    assert cluster.event_reasons.count("Stopping") == 1
    assert cluster.event_reasons.count("SuspendedBySpec") == 1


def test_a_resumed_job_goes_on_and_says_so() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.stop_obediently()
    cluster.unplace()
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert cluster.reason(SUSPENDED) == "Resumed"
    assert cluster.status.state == "Waiting"
    cluster.place("node-b", "node-a")
    cluster.settle()
    cluster.start()
    cluster.settle()
    assert cluster.status.state == "Running"
    assert cluster.created.count("mlr-server-0") == 1
    assert cluster.event_reasons.count("Resumed") == 1


def test_a_resumed_job_waits_until_its_old_servers_are_gone() -> None:
    cluster = Cluster(job_manifest(checkpoint={"volumeClaimName": "ckpt"})).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.stop_obediently()
    cluster.settle()
    cluster.edit(suspend=False)
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0"}
    cluster.reap()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0", "mlr-worker-0"}


def test_a_job_that_is_resumed_while_it_stops_lets_all_its_workers_stop_first() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.exit("mlr-worker-0", 75)
    cluster.edit(suspend=False)
    cluster.settle()
    assert "mlr-worker-0" not in cluster.pods, "the old one is there, and still stopping"
    cluster.stop_obediently()
    cluster.settle()
    assert all(cluster.created.count(name) == 2 for name in WORKERS)
    assert not told(cluster)
    assert cluster.status.restarts == 0


def test_a_job_that_was_created_suspended_holds_nothing() -> None:
    cluster = Cluster(job_manifest(suspend=True))
    cluster.settle()
    assert not cluster.pods
    assert not cluster.services
    assert cluster.status.state == "Suspended"


def test_a_job_in_a_kueue_queue_says_that_it_waits_for_it() -> None:
    cluster = Cluster(job_manifest(suspend=True))
    cluster.manifest["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "research"}
    cluster.settle()
    assert cluster.reason(ADMITTED) == "WaitingForQueue"
    assert "queue research" in cluster.condition(ADMITTED).message


def test_a_preempted_job_keeps_its_servers_and_goes_on_by_itself() -> None:
    spec = {"checkpoint": {"volumeClaimName": "ckpt"}}
    cluster = Cluster(job_manifest(workers=2, **spec)).run()
    cluster.unplace("team/urgent took node-a", preempted_by={"job-uid": "team/urgent"})
    cluster.settle()
    assert told(cluster) == set(WORKERS)
    cluster.stop_obediently()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0"}
    assert cluster.status.state == "Preempted"
    assert cluster.reason(SUSPENDED) == cluster.reason(ADMITTED) == "Preempted"
    assert cluster.status.start_time is None
    assert cluster.event_reasons.count("Preempted") == 1
    cluster.unplace("waits for a slot")
    cluster.settle()
    assert cluster.status.preempted_by == "team/urgent", "also when the next plan does not say so"
    cluster.place("node-a", "node-b")
    cluster.settle()
    assert cluster.status.preempted_by is None
    assert cluster.reason(SUSPENDED) == "Resumed"
    assert set(cluster.pods) == {"mlr-server-0", *WORKERS}


def test_a_moved_worker_takes_its_peers_along_and_the_servers_stay() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.place("node-a", "node-c", name="g-2")
    cluster.settle()
    assert told(cluster) == set(WORKERS)
    assert cluster.reason(RUNNING) == "Moving"
    assert cluster.status.state == "Stopping"
    cluster.exit("mlr-worker-0", 75)
    cluster.settle()
    assert cluster.created.count("mlr-worker-0") == 1, "its peer has not left its old place"
    cluster.exit("mlr-worker-1", 75)
    cluster.settle()
    assert [cluster.pod(name).group for name in WORKERS] == ["g-2", "g-2"]
    assert cluster.pod("mlr-worker-1").slot == "node-c/cpu-1"
    assert cluster.created.count("mlr-server-0") == 1
    assert cluster.status.restarts == 0


def test_a_worker_that_moved_is_not_said_to_be_replaced() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.place("node-b", name="g-2")
    cluster.settle()
    cluster.exit("mlr-worker-0", 75)
    cluster.pods["mlr-worker-0"]["status"]["phase"] = "Running"
    cluster.settle()
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None
    assert cluster.reason(RUNNING) == "WorkersStarting"


def test_a_plan_that_changes_in_place_only_changes_annotations() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    before = [cluster.pod(name).node_plan for name in WORKERS]
    cluster.place("node-a", "node-b", generation=2)
    cluster.settle()
    after = [cluster.pod(name).node_plan for name in WORKERS]
    assert all('"generation":2' in plan for plan in after)
    assert not set(before) & set(after)
    assert not told(cluster)
    assert len(cluster.created) == 3


def test_workers_that_have_not_started_are_moved_without_ado() -> None:
    cluster = Cluster(job_manifest(workers=2))
    cluster.place("node-a", "node-b")
    cluster.settle()
    cluster.place("node-c", "node-b", name="g-1")
    cluster.settle()
    assert cluster.pod("mlr-worker-0").slot == "node-c/cpu-0"
    assert cluster.created.count("mlr-worker-1") == 1
    assert not told(cluster)


def test_a_worker_on_a_silent_node_is_moved_alone_for_its_peers_wait_for_it() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.lose_node("node-b")
    cluster.place("node-a", "node-c")
    cluster.nodes["node-c"] = True
    cluster.settle()
    assert cluster.pod("mlr-worker-1").deleting_since_seconds is not None
    assert "mlr-worker-1-1" in cluster.pods
    assert not told(cluster)


def test_a_worker_that_does_not_stop_in_time_is_deleted() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.pass_time(STOP_WITHIN_SECONDS - 1)
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is None
    again = cluster.look().again_after_seconds
    assert again == 1
    cluster.pass_time(again)
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None
    cluster.reap()
    cluster.settle()
    assert cluster.status.state == "Suspended"
    assert cluster.status.restarts == 0


@pytest.mark.parametrize("loss", ["failed", "deleted", "gone", "not started", "failed when told"])
def test_the_peers_of_a_lost_worker_wait_for_nothing_when_their_job_stops(loss: str) -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    match loss:
        case "failed":
            cluster.exit("mlr-worker-0", 3)
            cluster.settle()
        case "deleted":
            cluster.delete("mlr-worker-0")
        case "gone":
            cluster.exit("mlr-worker-0", 3)
            cluster.delete("mlr-worker-0")
        case "not started":
            cluster.delete("mlr-worker-0")
            cluster.reap()
            cluster.settle()
        case "failed when told":
            cluster.edit(suspend=True)
            cluster.settle()
            cluster.exit("mlr-worker-0", 3)
    if loss != "failed when told":
        cluster.edit(suspend=True)
    cluster.settle()
    assert cluster.pod("mlr-worker-1").deleting_since_seconds is not None
    assert cluster.pod("mlr-server-0").deleting_since_seconds is None
    cluster.reap()
    cluster.settle()
    assert cluster.status.state == "Suspended"


def test_a_worker_that_stopped_and_is_on_its_way_out_is_no_lost_one() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.exit("mlr-worker-0", 75)
    cluster.pods["mlr-worker-0"]["status"]["phase"] = "Running"
    cluster.settle()
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None
    assert cluster.pod("mlr-worker-1").deleting_since_seconds is None


def test_a_program_without_the_sdk_is_deleted_soon() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.now += LISTENS_WITHIN_SECONDS
    cluster.observe(0, iteration=0, connected=False)
    cluster.settle()
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None


def test_a_program_that_had_no_connection_before_it_was_told_is_given_time() -> None:
    cluster = Cluster(job_manifest()).run()
    cluster.observe(0, iteration=0, connected=False)
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.pass_time(LISTENS_WITHIN_SECONDS)
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is None


def test_a_worker_that_stops_unasked_is_replaced_and_not_counted_but_not_at_once() -> None:
    cluster = Cluster(job_manifest(failurePolicy={"backoffLimit": 0})).run()
    cluster.exit("mlr-worker-0", 75)
    cluster.settle()
    assert cluster.created.count("mlr-worker-0") == 1
    cluster.pass_time(30)
    assert cluster.created.count("mlr-worker-0") == 2
    assert cluster.status.restarts == 0


def test_a_job_that_loses_its_slots_waits_and_keeps_its_servers() -> None:
    cluster = Cluster(job_manifest(workers=2)).run()
    cluster.unplace("needs 2 slots, there are 1")
    cluster.settle()
    cluster.stop_obediently()
    cluster.settle()
    assert set(cluster.pods) == {"mlr-server-0"}
    assert cluster.status.state == "Waiting"
    assert cluster.condition(ADMITTED).message == "needs 2 slots, there are 1"
    assert cluster.status.start_time is not None


def test_why_a_job_waits_is_remembered_while_a_new_operator_has_not_planned_yet() -> None:
    cluster = Cluster(job_manifest())
    cluster.unplace("waits until 1 of 2 slots are free")
    cluster.settle()
    writes = cluster.status_writes
    cluster.memory = type(cluster.memory)()
    cluster.settle()
    assert cluster.status_writes == writes
    assert cluster.reason(ADMITTED) == "WaitingForSlot"


def test_each_server_has_a_volume_claim_of_its_own_which_outlives_a_suspension() -> None:
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec = {"checkpoint": {"volumeClaimTemplate": {"spec": claim}}}
    cluster = Cluster(job_manifest(servers=2, **spec)).run()
    names = {"mlr-server-0", "mlr-server-1"}
    assert {key.name for key in cluster.volume_claims if key != CLAIM} == names
    volumes = [cluster.pods[name]["spec"]["volumes"] for name in sorted(names)]
    used = [one["persistentVolumeClaim"]["claimName"] for pod in volumes for one in pod
            if "persistentVolumeClaim" in one]  # fmt: skip
    assert used == sorted(names)
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.stop_obediently()
    cluster.settle()
    cluster.reap()
    cluster.settle()
    assert not cluster.pods
    assert {key.name for key in cluster.volume_claims if key != CLAIM} == names


def test_a_worker_whose_iterations_are_said_to_be_long_is_given_the_time_for_ten() -> None:
    hint = {"computeMilliseconds": 60_000, "pullMilliseconds": 0, "pushMilliseconds": 0}
    cluster = Cluster(job_manifest(profile=hint)).run()
    cluster.edit(suspend=True)
    cluster.settle()
    cluster.pass_time(STOP_WITHIN_SECONDS + 599)
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is None
    cluster.pass_time(1)
    assert cluster.pod("mlr-worker-0").deleting_since_seconds is not None
