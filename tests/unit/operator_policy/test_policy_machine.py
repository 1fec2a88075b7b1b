"""A job lives through anything: random events, an operator that is killed, rules that hold.

Whatever happened, when the cluster behaves again the job comes to its end.
"""

from collections import Counter
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from policy_cluster import CLAIM, Cluster, foreign_servers, job_manifest

from harmony_operator.actions import Create, Step
from harmony_operator.observed import ApiProblem, VolumeClaim
from harmony_operator.policies.pod_outcome import is_live

WORKERS, SERVERS = 2, 2
NODES = ("node-a", "node-b", "node-c")
FINISHED = ("Succeeded", "Failed")
ENDINGS = ("WorkersSucceeded", "ChiefSucceeded", "BackoffLimitExceeded")


class JobLife:
    """A job, what can happen to it, and what was true of it so far."""

    def __init__(self, *, foreign: bool, checkpoint: bool, chief: bool, limit: int) -> None:
        spec: dict[str, Any] = {"failurePolicy": {"backoffLimit": limit}}
        if foreign:
            spec["parameterServers"] = foreign_servers(SERVERS)
        if checkpoint:
            spec["checkpoint"] = {"volumeClaimName": "ckpt"}
        if chief:
            spec["completion"] = {"success": "ChiefWorker"}
        manifest = job_manifest(workers=WORKERS, servers=SERVERS, **spec)
        self.cluster = Cluster(
            manifest,
            nodes=dict.fromkeys(NODES, True),
            volume_claims={CLAIM: VolumeClaim(access_modes=frozenset({"ReadWriteMany"}))},
        )
        self.limit = limit
        self.ending: tuple[Any, ...] | None = None
        self.made_before_end = 0

    # what happens

    def look(self, killed_after: int | None) -> None:
        self.cluster.look(killed_after=killed_after)

    def settle(self, seconds: float) -> None:
        self.cluster.now += seconds
        self.cluster.settle()
        if self.cluster.status.state in ("Suspended", "Preempted", "Waiting"):
            assert not any(pod.role == "worker" and is_live(pod) for pod in self._pods())

    def place(self, nodes: list[str], name: str) -> None:
        self.cluster.place(*nodes[:WORKERS], name=name)

    def unplace(self, preempted: bool) -> None:
        self.cluster.unplace(preempted_by={"job-uid": "team/urgent"} if preempted else {})

    def suspend(self, suspend: bool) -> None:
        self.cluster.edit(suspend=suspend)

    def kubelets_work(self, obedient: bool, reap: bool) -> None:
        if obedient:
            self.cluster.stop_obediently()
        if reap:
            self.cluster.reap()
        self.cluster.start()

    def end(self, names: list[int], code: int) -> None:
        for name in self._chosen(names):
            pod = self.cluster.pod(name)
            if pod.started_seconds is not None and not pod.finished:
                self.cluster.exit(name, code)

    def delete(self, names: list[int], evict: bool) -> None:
        for name in self._chosen(names):
            if evict:
                self.cluster.set_condition(name, "DisruptionTarget", "True")
            self.cluster.delete(name)

    def refuse_pods(self, names: list[int]) -> None:
        for name in self._chosen(names):
            if self.cluster.pod(name).started_seconds is None:
                self.cluster.fail_without_container(name, "OutOfcpu")

    def node(self, name: str, ready: bool) -> None:
        self.cluster.nodes[name] = ready
        for pod in self._pods():
            if pod.node == name and not ready:
                self.cluster.set_condition(pod.key.name, "Ready", "False")

    def quota(self, refusing: bool) -> None:
        problem = ApiProblem(
            status=403, reason="Forbidden", message="exceeded quota: x", what="create Pod a/b"
        )

        def refuse(step: Step) -> ApiProblem | None:
            return problem if isinstance(step, Create) else None

        self.cluster.refuse = refuse if refusing else lambda step: None

    # what always holds

    def check(self) -> None:
        status, reasons = self.cluster.status, self.cluster.event_reasons
        if self.ending is not None:
            assert (status.state, status.completion_time) == self.ending
            assert len(self.cluster.created) == self.made_before_end
        elif status.state in FINISHED:
            self.ending = (status.state, status.completion_time)
            self.made_before_end = len(self.cluster.created)
        live = Counter((pod.role, pod.index) for pod in self._pods() if is_live(pod))
        assert all(count == 1 for count in live.values()), live
        counted = self.cluster.counted
        assert len(set(counted)) == len(counted) == status.restarts <= self.limit
        for reason in ENDINGS:
            assert reasons.count(reason) <= 1
            assert reason not in reasons or status.state in FINISHED

    def come_to_an_end(self) -> None:
        """Let the cluster behave, and see the job through."""
        cluster = self.cluster
        cluster.refuse = lambda step: None
        cluster.nodes = dict.fromkeys(NODES, True)
        cluster.edit(suspend=False)
        cluster.place("node-a", "node-b")
        for _ in range(60):
            cluster.settle()
            self.check()
            if cluster.status.state == "Running":
                for pod in self._pods():
                    if pod.role == "worker" and not pod.finished:
                        cluster.exit(pod.key.name)
            cluster.reap()
            cluster.stop_obediently()
            cluster.start()
            cluster.now += 60
        assert cluster.status.state in FINISHED
        assert all(pod.finished for pod in self._pods())
        if cluster.status.state == "Succeeded":
            assert all(pod.role == "worker" for pod in self._pods())

    def _pods(self) -> list[Any]:
        return [self.cluster.pod(name) for name in sorted(self.cluster.pods)]

    def _chosen(self, numbers: list[int]) -> list[str]:
        names = sorted(self.cluster.pods)
        return sorted({names[number % len(names)] for number in numbers}) if names else []


def event(act: Callable[..., None], **arguments: st.SearchStrategy[Any]) -> Any:
    return st.tuples(st.just(act), st.fixed_dictionaries(arguments))


SOME = st.lists(st.integers(0, 3), min_size=1, max_size=3)
OPERATOR = event(JobLife.look, killed_after=st.sampled_from([None, None, 0, 1, 2, 3, 4]))
KUBELETS = event(JobLife.kubelets_work, obedient=st.booleans(), reap=st.booleans())
TIME = event(JobLife.settle, seconds=st.sampled_from([0, 1, 20, 100, 400]))
OTHERS = [
    event(JobLife.place, nodes=st.permutations(NODES), name=st.sampled_from(["g-1", "g-2"])),
    event(JobLife.unplace, preempted=st.booleans()),
    event(JobLife.suspend, suspend=st.booleans()),
    event(JobLife.end, names=SOME, code=st.sampled_from([0, 1, 1, 75, 137])),
    event(JobLife.delete, names=SOME, evict=st.booleans()),
    event(JobLife.refuse_pods, names=SOME),
    event(JobLife.node, name=st.sampled_from(NODES), ready=st.booleans()),
    event(JobLife.quota, refusing=st.booleans()),
]
EVENTS = st.one_of(OPERATOR, OPERATOR, OPERATOR, KUBELETS, KUBELETS, TIME, TIME, *OTHERS)


@settings(max_examples=100, deadline=None)
@given(
    job=st.fixed_dictionaries(
        {name: st.booleans() for name in ("foreign", "checkpoint", "chief")}
        | {"limit": st.integers(0, 5)}
    ),
    running=st.sampled_from([True, True, False]),
    events=st.lists(EVENTS, min_size=20, max_size=40),
)
def test_whatever_happens_the_rules_hold_and_the_job_comes_to_its_end(
    job: dict[str, Any], running: bool, events: list[Any]
) -> None:
    life = JobLife(**job)
    if running:
        life.cluster.run()
    for act, arguments in events:
        act(life, **arguments)
        life.check()
    life.come_to_an_end()
