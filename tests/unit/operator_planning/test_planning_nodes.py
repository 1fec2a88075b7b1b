"""Jobs get slots only on nodes where kube-scheduler lets their workers run."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Cluster

from harmony_operator.observed import ObservedNode, Taint
from harmony_operator.planning.node_fit import barred_nodes, demands

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NO_ROOM = "0/2 nodes are available: 1 Insufficient memory."


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [*terms]}}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": [*values]}


def why_not(node: ObservedNode, **spec: Any) -> str | None:
    return barred_nodes(demands({"spec": spec}, ()), [node]).get(node.name)


def a_node(*taints: Taint, **labels: str) -> ObservedNode:
    return ObservedNode(
        name="a", ready=True, schedulable=True, taints=frozenset(taints), labels=labels
    )


@pytest.mark.parametrize(
    ("requirement", "holds"),
    [
        (expression("zone", "In", "a", "b"), True),
        (expression("zone", "In", "b"), False),
        (expression("other", "In", "b"), False),
        (expression("zone", "NotIn", "b"), True),
        (expression("zone", "NotIn", "a"), False),
        (expression("other", "NotIn", "a"), True),
        (expression("zone", "Exists"), True),
        (expression("other", "Exists"), False),
        (expression("other", "DoesNotExist"), True),
        (expression("zone", "DoesNotExist"), False),
        (expression("size", "Gt", "9"), True),
        (expression("size", "Gt", "10"), False),
        (expression("size", "Lt", "11"), True),
        (expression("zone", "Gt", "0"), False),
        (expression("other", "Lt", "11"), False),
        (expression("size", "Unknown", "10"), False),
    ],
    ids=lambda value: " ".join(map(str, value.values())) if isinstance(value, dict) else str(value),
)
def test_a_requirement_on_labels_means_what_it_means_to_the_scheduler(
    requirement: dict[str, Any], holds: bool
) -> None:
    node = a_node(zone="a", size="10")
    assert (why_not(node, **affinity({"matchExpressions": [requirement]})) is None) is holds


@pytest.mark.parametrize(
    ("terms", "holds"),
    [
        ([{"matchFields": [expression("metadata.name", "In", "a")]}], True),
        ([{"matchFields": [expression("metadata.name", "NotIn", "a")]}], False),
        ([{"matchExpressions": [expression("zone", "In", "b")]}, {}], False),
        ([{"matchExpressions": [expression("zone", "In", "b")]}] * 2, False),
        ([{"matchExpressions": [expression("zone", "In", z)]} for z in "ba"], True),
        ([{"matchExpressions": [expression("zone", "In", z) for z in "ba"]}], False),
    ],
)
def test_terms_are_alternatives_and_an_empty_one_holds_nowhere(
    terms: list[dict[str, Any]], holds: bool
) -> None:
    assert (why_not(a_node(zone="a"), **affinity(*terms)) is None) is holds


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        ({"key": "team", "value": "red"}, True),
        ({"key": "team", "value": "blue"}, False),
        ({"key": "team", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"operator": "Exists", "effect": "NoExecute"}, False),
        ({"key": "team", "operator": "Equal", "value": "red", "effect": "NoSchedule"}, True),
        ({"key": "other", "operator": "Exists"}, False),
    ],
)
def test_a_toleration_means_what_it_means_to_the_scheduler(
    toleration: dict[str, Any], tolerated: bool
) -> None:
    node = a_node(Taint("team", "red"))
    assert (why_not(node, tolerations=[toleration]) is None) is tolerated


def test_what_keeps_a_job_from_a_node_is_named() -> None:
    assert why_not(a_node(zone="b"), nodeSelector={"zone": "a", "disk": "ssd"}) == (
        "workers.template.spec.nodeSelector asks for disk=ssd, zone=a"
    )
    asked = affinity(
        {"matchExpressions": [expression("zone", "In", "a", "b"), expression("disk", "Exists")]},
        {"matchFields": [expression("metadata.name", "In", "c")]},
    )
    assert why_not(a_node(zone="c"), **asked) == (
        "workers.template.spec.affinity asks for zone In a, b and disk Exists or metadata.name In c"
    )
    assert why_not(a_node(Taint("team", "red", "NoExecute"))) == (
        "workers.template.spec.tolerations has none for the taint team=red:NoExecute"
    )


texts = st.sampled_from(["", "a", "b", "10", "nine"])
requirements = st.fixed_dictionaries(
    {
        "key": st.sampled_from(["zone", "size", "metadata.name"]),
        "operator": st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt", "?"]),
        "values": st.lists(texts, max_size=2),
    }
)
templates = st.fixed_dictionaries(
    {},
    optional={
        "nodeSelector": st.dictionaries(st.sampled_from(["zone", "size"]), texts),
        "affinity": st.lists(
            st.fixed_dictionaries({}, optional={"matchExpressions": st.lists(requirements)}),
            max_size=3,
        ).map(lambda terms: affinity(*terms)["affinity"]),
        "tolerations": st.lists(
            st.fixed_dictionaries(
                {}, optional={"key": st.just("team"), "operator": st.just("Exists"), "value": texts}
            )
        ),
    },
)


@settings(max_examples=100, deadline=None)
@given(templates, st.dictionaries(st.sampled_from(["zone", "size"]), texts))
def test_whatever_is_asked_there_is_an_answer_and_asking_more_closes_more(
    template: dict[str, Any], labels: dict[str, str]
) -> None:
    plain, tainted = a_node(**labels), a_node(Taint("team", "red"), **labels)
    closed, closed_tainted = why_not(plain, **template), why_not(tainted, **template)
    assert closed_tainted is not None or closed is None
    asked = json.loads(demands({"spec": template}, ()))
    assert asked["selector"] == template.get("nodeSelector", {})
    if any(labels.get(key) != value for key, value in asked["selector"].items()):
        assert closed is not None


def test_a_job_waits_for_a_node_with_the_label_that_it_asks_for() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    job = cluster.add_job("mlr", template={"nodeSelector": {"zone": "a"}})
    cluster.plan()
    assert cluster.waits(job) == (
        "needs 1 slot, there are none that it may use: "
        "workers.template.spec.nodeSelector asks for zone=a"
    )
    assert cluster.plan().why is None
    cluster.set_node("b", labels={"zone": "a"})
    assert cluster.plan().why == "team/mlr can use other nodes"
    assert cluster.places(job) == ["b/cpu-0"]
    other = cluster.add_job("mlp", template={"nodeSelector": {"zone": "a"}})
    cluster.set_status(job, separated_from=(cluster.jobs[other].uid,))
    cluster.plan()
    assert cluster.waits(other) == (
        "waits until a slot is free: team/mlr was slower with team/mlp than in turn; "
        "cannot use node a: workers.template.spec.nodeSelector asks for zone=a"
    )


def test_a_slot_with_gpus_is_cut_on_a_node_that_the_job_can_use() -> None:
    cluster = Cluster(binding="claim")
    cluster.add_nodes("a", "b", "c", gpus=4)
    cluster.set_node("b", taints=frozenset({Taint("team", "red"), Taint("nvidia.com/gpu")}))
    tolerations = [{"key": "team", "operator": "Exists"}]
    on_b = {"nodeSelector": {"zone": "b"}, "tolerations": tolerations}
    job = cluster.add_job("mlr", gpus=2, workers=2, template=on_b)
    other = cluster.add_job("mlp", gpus=4, workers=2)
    cluster.set_node("b", labels={"zone": "b"})
    cluster.plan()
    assert cluster.places(job) == ["b/gpu-0", "b/gpu-1"]
    assert sorted(cluster.places(other)) == ["a/gpu-0", "c/gpu-0"]


def test_a_worker_that_stays_unschedulable_is_given_another_place() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    job = cluster.add_job("mlr")
    cluster.settle()
    (before,) = cluster.places(job)
    cluster.run_pods()
    stuck = {"node": "", "unschedulable_message": NO_ROOM, "created_seconds": cluster.now}
    cluster.set_pods(job, **stuck)
    cluster.now += 59
    assert cluster.plan().steps == ()
    cluster.now += 1
    assert cluster.plan().why == "team/mlr can use other nodes"
    assert cluster.places(job) != [before]


def test_a_node_is_avoided_longer_each_time_and_never_while_a_worker_waits_there() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr")
    cluster.settle()
    for times, avoided_seconds in ((1, 300), (2, 600), (3, 1200), (4, 2400), (5, 3600), (6, 3600)):
        cluster.run_pods()
        since = cluster.now
        cluster.set_pods(
            job, uid=f"{times}", node="", unschedulable_message=NO_ROOM, created_seconds=since
        )
        for later in (60, 4000):
            cluster.now = since + later
            cluster.settle()
            assert cluster.places(job) == ["a/cpu-0"]
            assert "a" in cluster.memory.snapshot.jobs[0].unschedulable
        cluster.remove_pods(job)
        cluster.now += avoided_seconds - 1
        cluster.plan()
        assert "a" in cluster.memory.snapshot.jobs[0].unschedulable
        cluster.now += 1
        cluster.plan()
        assert not cluster.memory.snapshot.jobs[0].unschedulable
        assert cluster.memory.stuck[job, "a"].times == times


def test_a_worker_that_was_let_in_after_all_keeps_its_place() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    job = cluster.add_job("mlr", sharing={"policy": "Exclusive"})
    cluster.settle()
    cluster.run_pods()
    cluster.set_pods(job, node="", unschedulable_message=NO_ROOM, created_seconds=cluster.now)
    cluster.now += 60
    cluster.settle()
    assert cluster.memory.stuck
    cluster.run_pods()
    cluster.add_nodes("b")
    waiting = cluster.add_job("mlp")
    cluster.settle()
    assert (cluster.places(job), cluster.places(waiting)) == (["a/cpu-0"], ["b/cpu-0"])
    assert not cluster.memory.stuck


def test_a_job_that_can_never_be_scheduled_keeps_no_slot_that_another_could_use() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    hopeless = cluster.add_job("hopeless", sharing={"policy": "Exclusive"})
    cluster.settle()
    cluster.run_pods()
    cluster.set_pods(hopeless, node="", unschedulable_message=NO_ROOM, created_seconds=cluster.now)
    waiting = cluster.add_job("mlp")
    cluster.plan()
    assert not cluster.places(waiting)
    cluster.now += 60
    cluster.plan()
    assert cluster.places(waiting) == ["a/cpu-0"]
    assert cluster.waits(hopeless) == (
        "waits until a slot is free: cannot use node a: kube-scheduler found no room there for "
        f"hopeless-worker-0: {NO_ROOM}"
    )
    cluster.run_pods()
    cluster.settle()
    assert cluster.places(waiting) == ["a/cpu-0"]


def test_a_node_whose_kubelet_refuses_a_worker_twice_is_avoided() -> None:
    cluster = Cluster()
    cluster.add_nodes("a", "b")
    job = cluster.add_job("mlr")
    cluster.settle()
    (before,) = cluster.places(job)
    node = before.partition("/")[0]
    for times in range(2):
        cluster.run_pods()
        cluster.set_pods(job, uid=f"bound-{times}", phase="Pending")
        cluster.settle()
        assert cluster.places(job) == [before], "the first time it may just have started"
        cluster.set_pods(job, uid=f"bound-{times}", phase="Failed", reason="OutOfcpu")
        cluster.settle()
        cluster.now += 30
    assert cluster.places(job) != [before]
    why = cluster.memory.snapshot.jobs[0].unschedulable[node]
    assert why == "its kubelet refused mlr-worker-0: OutOfcpu"


def test_a_job_whose_image_a_node_cannot_get_gives_its_slot_to_one_that_waits() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    hopeless = cluster.add_job("hopeless", sharing={"policy": "Exclusive"})
    cluster.settle()
    cluster.run_pods()
    image = {"waiting_reason": "ErrImagePull", "waiting_message": "no such image"}
    cluster.set_pods(hopeless, phase="Pending", created_seconds=cluster.now, **image)
    waiting = cluster.add_job("mlp")
    cluster.plan()
    assert not cluster.places(waiting)
    cluster.now += 300
    cluster.plan()
    assert cluster.places(waiting) == ["a/cpu-0"]
    assert "hopeless-worker-0 cannot start there: ErrImagePull" in cluster.waits(hopeless)
