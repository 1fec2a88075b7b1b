"""What every plan has to keep, whatever the cluster and its jobs are."""

from dataclasses import replace

from hypothesis import strategies as st
from planner_examples import milliseconds, profile, slots

from harmony_planner.grouping import KEPT_MARGIN
from harmony_planner.snapshot import CurrentGroup, Job, Plan, Snapshot

GIB = 2**30

measured = st.builds(profile, st.integers(0, 150), milliseconds, milliseconds, milliseconds)


NODES = ("node-a", "node-b")
some_nodes = st.dictionaries(
    st.sampled_from(NODES), st.just("it has another zone"), max_size=1
) | st.just({})


@st.composite
def snapshots(draw: st.DrawFn) -> Snapshot:
    """Snapshots with every kind of job, some of them running in groups already."""
    places = tuple(
        replace(
            slot,
            node=draw(st.sampled_from(NODES)),
            closed=draw(st.sampled_from([None, None, None, "node is cordoned"])),
        )
        for slot in slots(
            draw(st.integers(1, 3)), memory_bytes=draw(st.sampled_from([None, 8 * GIB]))
        )
    )
    names = "abcdefg"[: draw(st.integers(0, 7))]
    groups = tuple(
        CurrentGroup(name=f"g{index}", slots=(slot.name,), correction=draw(st.floats(0.8, 1.5)))
        for index, slot in enumerate(places)
        if draw(st.booleans())
    )
    jobs = []
    for name in names:
        footprint = draw(st.none() | st.integers(0, 10 * GIB))
        jobs.append(
            Job(
                name=name,
                submitted=draw(st.integers(0, 3)),
                priority=draw(st.sampled_from([0, 0, 0, 10, 20])),
                namespace=draw(st.sampled_from(["", "", "", "other"])),
                workers=draw(st.sampled_from([1, 1, 1, 2])),
                policy=draw(st.sampled_from(["Shared", "Shared", "Shared", "Exclusive"])),
                max_slowdown_percent=draw(st.integers(0, 300)),
                footprint_bytes=footprint,
                minimum_bytes=None if footprint is None else draw(st.integers(0, footprint)),
                profile=draw(st.none() | measured),
                separated_from=frozenset(draw(st.sets(st.sampled_from(names), max_size=1))),
                current_group=draw(st.sampled_from([None, *(group.name for group in groups)])),
                barred=draw(some_nodes),
                unschedulable=draw(some_nodes),
            )
        )
    return Snapshot(
        jobs=tuple(jobs),
        slots=places,
        groups=groups,
        network=draw(st.sampled_from(["HalfDuplex", "FullDuplex"])),
        servers_share_core=draw(st.booleans()),
    )


def check_rules(snapshot: Snapshot, decision: Plan) -> None:
    """Assert that a plan breaks no limit."""
    jobs = {each.name: each for each in snapshot.jobs}
    placed = [member.job for group in decision.groups for member in group.members]
    assert sorted([*placed, *(waiting.job for waiting in decision.waiting)]) == sorted(jobs)
    assert all(waiting.reason for waiting in decision.waiting)
    closed = {slot.name for slot in snapshot.slots if slot.closed}
    nodes = {slot.name: slot.node for slot in snapshot.slots}
    used = [slot for group in decision.groups for slot in group.slots]
    assert len(used) == len(set(used))
    assert set(used) <= {slot.name for slot in snapshot.slots}
    assert len({group.name for group in decision.groups}) == len(decision.groups)
    for group in decision.groups:
        together = [jobs[member.job] for member in group.members]
        assert [member.order for member in group.members] == list(range(len(together)))
        for member in group.members:
            assert member.reason
            assert member.slots == group.slots[: jobs[member.job].workers]
        if len(together) == 1:
            continue
        assert len(together) <= 4
        assert all(each.policy == "Shared" for each in together)
        assert len({each.namespace for each in together}) == 1
        assert all(
            each.separated_from.isdisjoint({o.name for o in together} - {each.name})
            for each in together
        )
        if group.prediction is None:
            assert len(together) == 2
        else:
            for each in together:
                margin = KEPT_MARGIN if each.current_group == group.name else 0.0
                slowdown = round(group.prediction.slowdown_percent[each.name])
                limit = (100 + each.max_slowdown_percent) * (1 + margin)
                assert 100 + slowdown <= limit
            newcomers = [each for each in together if each.current_group != group.name]
            assert group.prediction.speedup * (1 if newcomers else 1 + KEPT_MARGIN) > 1
    for group in decision.groups:
        for member in group.members:
            if jobs[member.job].current_group != group.name:
                assert not closed.intersection(member.slots)
                barred = jobs[member.job].barred.keys() | jobs[member.job].unschedulable.keys()
                assert barred.isdisjoint(nodes[name] for name in member.slots)
    for waiting in decision.waiting:
        if waiting.preempted_by is not None:
            assert waiting.preempted_by in placed
            assert jobs[waiting.preempted_by].priority > jobs[waiting.job].priority
    for slot in snapshot.slots:
        held = [
            (jobs[member.job], member.memory_bytes)
            for group in decision.groups
            for member in group.members
            if slot.name in member.slots
        ]
        if slot.memory_bytes is None:
            continue
        assert sum(share or 0 for _, share in held) <= slot.memory_bytes
        for each, share in held:
            if each.footprint_bytes is None:
                assert len(held) == 1
            else:
                assert share is not None
                assert (each.minimum_bytes or 0) <= share <= each.footprint_bytes


def carried_out(snapshot: Snapshot, decision: Plan) -> Snapshot:
    """Return the snapshot after the plan, with what did not change as it was."""
    group_of = {member.job: group.name for group in decision.groups for member in group.members}
    return replace(
        snapshot,
        jobs=tuple(
            each
            if each.current_group == group_of.get(each.name)
            else replace(each, current_group=group_of.get(each.name))
            for each in snapshot.jobs
        ),
        groups=tuple(CurrentGroup(name=group.name, slots=group.slots) for group in decision.groups),
    )
