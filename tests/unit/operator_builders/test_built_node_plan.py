"""A node plan tells a sidecar who shares its node, and what is its worker's."""

import json

from hypothesis import given
from hypothesis import strategies as st

from harmony_api.node_plan import NodePlan
from harmony_api.profile import JobProfile
from harmony_operator.builders.group import build_group
from harmony_operator.builders.node_plan import plan_for, stopping
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedGroup, ObservedJob
from harmony_operator.parsing import parse_group
from operator_values import group, job, member, slot

HERE = SlotBinding(slot="node-a/0", node="node-a", devices=("node-a/0",))


def planned(
    of: ObservedJob,
    within: ObservedGroup,
    binding: SlotBinding = HERE,
    profiles: dict[str, JobProfile] | None = None,
) -> NodePlan:
    text = plan_for(of, within, binding, profiles or {})
    assert text is not None
    return NodePlan.model_validate_json(text)


def test_a_plan_lists_every_member_on_the_node_under_its_cluster_wide_name() -> None:
    one, other = job("one"), job("other", namespace="elsewhere")
    within = group(member(one, order=1), member(other, order=0, rounds=2))
    plan = planned(one, within)
    assert [(each.job, each.worker, each.order, each.rounds) for each in plan.members] == [
        ("team/one", 0, 1, 1),
        ("elsewhere/other", 0, 0, 2),
    ]
    assert (plan.group, plan.generation) == ("uid-group", 3)


def test_all_slots_of_a_group_on_one_node_have_the_same_members() -> None:
    of = job()
    within = group(member(of), slots=(slot(0), slot(1)))
    other = SlotBinding(slot="node-a/1", node="node-a", devices=("node-a/1",))
    assert planned(of, within).members == planned(of, within, other).members
    assert planned(of, within, other).devices == ("node-a/1",)


def test_profiles_say_how_long_phases_last() -> None:
    of = job()
    profile = JobProfile(
        iterations=10,
        compute_microseconds=120_000,
        pull_microseconds=40_000,
        push_microseconds=50_000,
    )
    [known] = planned(of, group(member(of)), profiles={"team/mlr": profile}).members
    assert (known.compute_seconds, known.network_seconds) == (0.12, 0.05)
    [unknown] = planned(of, group(member(of))).members
    assert (unknown.compute_seconds, unknown.network_seconds) == (0.0, 0.0)


def test_a_worker_with_fewer_gpus_than_the_slot_is_told_of_its_own() -> None:
    of = job(workers={"gpusPerWorker": 1})
    binding = SlotBinding(slot="s", node="node-a", devices=("GPU-1", "GPU-2"))
    within = group(member(of, device_memory_bytes=5), slots=(slot(gpus=2), slot(1, gpus=2)))
    plan = planned(of, within, binding)
    assert plan.devices == ("GPU-1",)
    assert plan.device_memory_bytes == 5


def test_there_is_no_plan_before_the_devices_are_known() -> None:
    of = job(workers={"gpusPerWorker": 1})
    binding = SlotBinding(slot="s", node="node-a", devices=None, claim_name="g-0")
    assert plan_for(of, group(member(of)), binding, {}) is None


def test_a_stop_changes_nothing_else_and_is_said_once() -> None:
    of = job()
    before = plan_for(of, group(member(of)), HERE, {})
    assert before is not None
    after = stopping(before)
    assert NodePlan.model_validate_json(after) == planned(of, group(member(of))).model_copy(
        update={"stop": True}
    )
    assert stopping(after) is after


def test_a_stop_keeps_what_a_newer_operator_wrote() -> None:
    assert json.loads(stopping('{"group":"g","new":1}')) == {"group": "g", "new": 1, "stop": True}


@given(st.integers(1, 5), st.permutations(("one", "other", "third")))
def test_a_group_is_read_back_as_it_was_built(generation: int, names: list[str]) -> None:
    spec = group(*(member(job(name)) for name in names), generation=generation).spec
    seen = parse_group(build_group("team", "g-1", spec))
    assert seen is not None
    assert (seen.key, seen.spec) == (("team", "g-1"), spec)
