"""A job lives through anything: random events, an operator that is killed, rules that hold.

Whatever happened, when the cluster behaves again the job comes to its end.
"""

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from policy_cluster import KEY, Cluster, foreign_servers, job_manifest

from harmony_operator.actions import Create, Step
from harmony_operator.observed import ApiProblem
from harmony_operator.policies.pod_outcome import is_live

WORKERS, SERVERS = 2, 2
NODES = ("node-a", "node-b", "node-c")
FINISHED = ("Succeeded", "Failed")


class JobLife(RuleBasedStateMachine):
    @initialize(
        foreign=st.booleans(),
        checkpoint=st.booleans(),
        chief=st.booleans(),
        limit=st.integers(0, 3),
        suspended=st.booleans(),
    )
    def begin(
        self, foreign: bool, checkpoint: bool, chief: bool, limit: int, suspended: bool
    ) -> None:
        spec: dict[str, Any] = {"failurePolicy": {"backoffLimit": limit}, "suspend": suspended}
        if foreign:
            spec["parameterServers"] = foreign_servers(SERVERS)
        if checkpoint:
            spec["checkpoint"] = {"volumeClaimName": "ckpt"}
        if chief:
            spec["completion"] = {"success": "ChiefWorker"}
        self.cluster = Cluster(
            job_manifest(workers=WORKERS, servers=SERVERS, **spec),
            nodes=dict.fromkeys(NODES, True),
        )
        self.ending: tuple[Any, ...] | None = None
        self.restarts = 0
        self.counted: list[str] = []
        self.made_before_end: int | None = None

    # the operator

    @rule(killed_after=st.one_of(st.none(), st.integers(0, 6)))
    def look(self, killed_after: int | None) -> None:
        self.cluster.look(killed_after=killed_after)

    @rule()
    def settle(self) -> None:
        self.cluster.settle()
        if self.cluster.status.state in ("Suspended", "Preempted", "Waiting"):
            pods = map(self.cluster.pod, self.cluster.pods)
            assert not any(pod.role == "worker" and is_live(pod) for pod in pods)

    @rule(seconds=st.sampled_from([1, 20, 100, 400]))
    def time_passes(self, seconds: float) -> None:
        self.cluster.now += seconds

    # the planner

    @rule(nodes=st.permutations(NODES), name=st.sampled_from(["g-1", "g-2"]))
    def place(self, nodes: list[str], name: str) -> None:
        self.cluster.place(*nodes[:WORKERS], name=name)

    @rule(preempted=st.booleans())
    def unplace(self, preempted: bool) -> None:
        self.cluster.unplace(preempted_by={KEY: "team/urgent"} if preempted else {})

    # the user

    @rule(suspend=st.booleans())
    def edit(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    @rule(data=st.data())
    def delete_pod(self, data: st.DataObject) -> None:
        self._some(data, self.cluster.delete)

    # nodes

    @rule()
    def start(self) -> None:
        self.cluster.start()

    @rule()
    def reap(self) -> None:
        self.cluster.reap()

    @rule()
    def stop_obediently(self) -> None:
        self.cluster.stop_obediently()

    @rule(data=st.data(), code=st.sampled_from([0, 1, 75, 137]))
    def exit(self, data: st.DataObject, code: int) -> None:
        def act(name: str) -> None:
            pod = self.cluster.pod(name)
            if pod.started_seconds is not None and not pod.finished:
                self.cluster.exit(name, code)

        self._some(data, act)

    @rule(data=st.data())
    def evict(self, data: st.DataObject) -> None:
        def act(name: str) -> None:
            self.cluster.set_condition(name, "DisruptionTarget", "True")
            self.cluster.delete(name)

        self._some(data, act)

    @rule(data=st.data())
    def refuse_pod(self, data: st.DataObject) -> None:
        def act(name: str) -> None:
            if self.cluster.pod(name).started_seconds is None:
                self.cluster.fail_without_container(name, "OutOfcpu")

        self._some(data, act)

    @rule(node=st.sampled_from(NODES), ready=st.booleans())
    def node(self, node: str, ready: bool) -> None:
        self.cluster.nodes[node] = ready
        if not ready:
            for name in list(self.cluster.pods):
                if self.cluster.pod(name).node == node:
                    self.cluster.set_condition(name, "Ready", "False")

    # the API server

    @rule(refusing=st.booleans())
    def quota(self, refusing: bool) -> None:
        problem = ApiProblem(
            status=403, reason="Forbidden", message="exceeded quota: x", what="create Pod a/b"
        )

        def refuse(step: Step) -> ApiProblem | None:
            return problem if isinstance(step, Create) else None

        self.cluster.refuse = refuse if refusing else lambda step: None

    # what always holds

    @invariant()
    def an_end_is_an_end(self) -> None:
        status = self.cluster.status
        if self.ending is not None:
            assert (status.state, status.completion_time) == self.ending
            assert len(self.cluster.created) == self.made_before_end
        elif status.state in FINISHED:
            self.ending = (status.state, status.completion_time)
            self.made_before_end = len(self.cluster.created)

    @invariant()
    def no_two_pods_do_the_same_work(self) -> None:
        alive = Counter(
            (pod.role, pod.index)
            for pod in map(self.cluster.pod, self.cluster.pods)
            if is_live(pod)
        )
        assert all(count == 1 for count in alive.values()), alive

    @invariant()
    def failures_are_counted_once(self) -> None:
        status = self.cluster.status
        assert status.restarts >= self.restarts
        uid = status.last_counted_pod_uid
        if status.restarts > self.restarts:
            assert uid is not None
            self.counted.append(uid)
        self.restarts = status.restarts
        assert len(set(self.counted)) == len(self.counted)
        assert self.restarts <= self.cluster.job.job.spec.failure_policy.backoff_limit  # type: ignore[union-attr]

    @invariant()
    def events_follow_what_the_status_says(self) -> None:
        reasons = self.cluster.event_reasons
        for reason in ("WorkersSucceeded", "ChiefSucceeded", "BackoffLimitExceeded"):
            assert reasons.count(reason) <= 1
            assert reason not in reasons or self.cluster.status.state in FINISHED

    def teardown(self) -> None:
        if not hasattr(self, "cluster"):
            return
        cluster = self.cluster
        cluster.refuse = lambda step: None
        cluster.nodes = dict.fromkeys(NODES, True)
        cluster.edit(suspend=False)
        cluster.place("node-a", "node-b")
        for _ in range(60):
            cluster.settle()
            self.no_two_pods_do_the_same_work()
            if cluster.status.state in FINISHED:
                break
            cluster.reap()
            cluster.stop_obediently()
            cluster.start()
            cluster.settle()
            if cluster.status.state == "Running":
                for name in list(cluster.pods):
                    pod = cluster.pod(name)
                    if pod.role == "worker" and not pod.finished:
                        cluster.exit(name)
            cluster.now += 60
        assert cluster.status.state in FINISHED
        cluster.settle()
        cluster.reap()
        assert all(cluster.pod(name).finished for name in cluster.pods)
        if cluster.status.state == "Succeeded":
            assert all(cluster.pod(name).role == "worker" for name in cluster.pods)

    def _some(self, data: st.DataObject, act: Any) -> None:
        if self.cluster.pods:
            act(data.draw(st.sampled_from(sorted(self.cluster.pods))))


TestJobLife = JobLife.TestCase
TestJobLife.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
