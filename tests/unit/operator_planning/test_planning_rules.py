"""Whatever happens to a cluster, its groups keep the rules, and come to rest."""

from collections import Counter
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from planning_cluster import Cluster, profile

from harmony_operator.observed import ObjectKey, Taint
from harmony_operator.occupants import occupants
from harmony_operator.planning.groups import group_changes
from harmony_operator.planning.memory import PlanningMemory
from harmony_operator.planning.stuck_workers import PATIENCE_SECONDS

NODES = "abc"
PRIORITIES = {"low": -10, "high": 10, "urgent": 100}
IN_ZONE = {"nodeSelector": {"zone": "z"}}
TOLERANT = {"tolerations": [{"key": "team", "operator": "Exists"}]}

milliseconds = st.integers(0, 120)
jobs = st.fixed_dictionaries(
    {
        "measured": st.none() | st.builds(profile, st.integers(1, 150), milliseconds, milliseconds),
        "namespace": st.sampled_from(["team", "team", "other"]),
        "workers": st.sampled_from([1, 1, 1, 2, 3]),
        "gpus": st.sampled_from([0, 1, 1, 2, 4]),
        "sharing": st.fixed_dictionaries(
            {
                "policy": st.sampled_from(["Shared", "Shared", "Exclusive"]),
                "maxSlowdownPercent": st.integers(0, 200),
            }
        ),
        "priorityClassName": st.sampled_from([None, None, *PRIORITIES]),
        "template": st.sampled_from([None, None, IN_ZONE, TOLERANT, IN_ZONE | TOLERANT]),
    }
)
events = st.lists(
    st.one_of(
        st.tuples(st.just("arrives"), jobs),
        st.tuples(
            st.sampled_from(["finishes", "suspends", "is deleted", "is measured", "is stuck"]),
            st.integers(0, 30),
        ),
        st.tuples(
            st.sampled_from(["cordoned", "silent", "gone", "back", "labelled", "tainted"]),
            st.integers(0, len(NODES) - 1),
        ),
        st.tuples(st.sampled_from(["pods follow", "operator restarts"]), st.none()),
    ),
    max_size=24,
)


def happen(cluster: Cluster, event: str, about: Any) -> None:
    active = sorted(cluster.jobs)
    if event == "arrives":
        wish = {name: value for name, value in about.items() if value is not None}
        cluster.add_job(f"job-{cluster.uids}", wish.pop("measured", None), **wish)
    elif event == "pods follow":
        cluster.run_pods()
    elif event == "operator restarts":
        cluster.memory = PlanningMemory()
    elif event in ("cordoned", "silent") and NODES[about] in cluster.nodes:
        cluster.set_node(NODES[about], ready=event != "silent", schedulable=event != "cordoned")
        if event == "silent":
            for job in active:
                if any(pod.node == NODES[about] for pod in cluster.pods_of(job)):
                    cluster.set_pods(job, deleting_since_seconds=cluster.now)
    elif event == "labelled" and NODES[about] in cluster.nodes:
        cluster.set_node(NODES[about], labels={"zone": "z"})
    elif event == "tainted" and NODES[about] in cluster.nodes:
        cluster.set_node(NODES[about], taints=frozenset({Taint("team", "red")}))
    elif event == "gone":
        cluster.nodes.pop(NODES[about], None)
        cluster.devices = [one for one in cluster.devices if one.node != NODES[about]]
    elif event == "back" and NODES[about] not in cluster.nodes:
        cluster.add_nodes(NODES[about], gpus=4)
    elif event in ("finishes", "suspends", "is deleted", "is measured", "is stuck") and active:
        job = active[about % len(active)]
        if event == "finishes":
            cluster.finish(job)
        elif event == "suspends":
            cluster.suspend(job)
        elif event == "is stuck":
            cluster.set_pods(
                job,
                node="",
                unschedulable_message="0/3 nodes are available",
                created_seconds=cluster.now - PATIENCE_SECONDS,
            )
        elif event == "is deleted":
            del cluster.jobs[job]
            cluster.remove_pods(job)
        else:
            cluster.set_status(job, profiles=(profile(50 + about, 20, 30),))


def check(cluster: Cluster) -> None:
    """The rules that hold after every pass."""
    holding = [group for group in cluster.groups.values() if group.spec.members]
    slots = [slot for group in holding for slot in group.spec.slots]
    assert len({slot.name for slot in slots}) == len(slots)
    used = Counter[str]()
    for slot in slots:
        used[slot.node] += slot.gpus
    assert all(count <= 4 for count in used.values())
    listed = [(one.namespace, one.job) for group in holding for one in group.spec.members]
    assert len(set(listed)) == len(listed)
    for key, job in cluster.jobs.items():
        assert job.job is not None
        ended = any(one.type == "Succeeded" for one in job.status.conditions)
        if job.job.spec.suspend or ended:
            assert key not in listed
            continue
        assert (key in listed) != (key in cluster.memory.remarks.waiting)
        assert len(cluster.places(key)) in (0, job.job.spec.workers.least)
        assert len(set(cluster.places(key))) == len(cluster.places(key))
    for group in holding:
        members = [cluster.jobs[one.namespace, one.job] for one in group.spec.members]  # type: ignore[index]
        if cluster.binding == "claim":
            assert {one.namespace for one in group.spec.members} == {group.key.namespace}
        for member, job in zip(group.spec.members, members, strict=True):
            assert job.uid == member.job_uid
            gpus = job.job.spec.workers.gpus_per_worker  # type: ignore[union-attr]
            for index in member.slot_indices:
                slot = group.spec.slots[index]
                assert slot.gpus >= gpus
                assert (slot.gpus > 0) == (gpus > 0)


def check_nodes(cluster: Cluster, before: dict[ObjectKey, list[str]]) -> None:
    """Nobody begins where its pods could not run, or where they were not let to."""
    asks = {job.name: job for job in cluster.memory.snapshot.jobs}
    for key, job in cluster.jobs.items():
        template = job.raw_spec["workers"]["template"]["spec"]  # type: ignore[index]
        for slot in set(cluster.places(key)) - set(before.get(key, ())):
            node = cluster.nodes[slot.partition("/")[0]]
            assert node.name not in asks[f"{key.namespace}/{key.name}"].unschedulable
            assert "nodeSelector" not in template or node.labels == {"zone": "z"}
            assert not node.taints or "tolerations" in template


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(["claim", "reservation"]), events)
def test_groups_keep_the_rules_and_come_to_rest(
    binding: str, happened: list[tuple[str, Any]]
) -> None:
    cluster = Cluster(binding=binding, more={"priorities": PRIORITIES})
    cluster.add_nodes(*NODES, gpus=4)
    for event, about in happened:
        happen(cluster, event, about)
        before = {key: cluster.places(key) for key in cluster.jobs}
        cluster.plan()
        check(cluster)
        check_nodes(cluster, before)
        memory = cluster.memory
        assert group_changes(memory.plan, memory.snapshot, cluster.state, cluster.settings) == ()
    cluster.run_pods()
    cluster.memory = PlanningMemory()
    for _ in range(3):
        cluster.settle()
        cluster.run_pods()
    assert cluster.plan().steps == ()
    assert not occupants(cluster.state).keys() - {
        slot.name for group in cluster.groups.values() for slot in group.spec.slots
    }
    restarted = replace(cluster, memory=PlanningMemory())
    assert restarted.plan().steps == ()
