"""What was measured of groups and pairs, and where it is kept."""

from dataclasses import replace

from planning_cluster import GOOD, Cluster


def test_a_pair_that_is_slower_than_in_turn_is_split_and_stays_apart() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first = cluster.add_job("mlr", GOOD)
    second = cluster.add_job("mlp", GOOD)
    cluster.plan()
    cluster.run_pods()
    cluster.observe(0, first, second)
    cluster.plan()
    cluster.now += 60
    cluster.observe(100, first, second)
    assert cluster.plan().why is None, "once may be chance"
    cluster.now += 60
    cluster.observe(200, first, second)
    result = cluster.plan()
    assert result.why == "team/mlp and team/mlr are slower together than in turn"
    assert result.remarks.separated_from == {
        cluster.jobs[first].uid: {cluster.jobs[second].uid},
        cluster.jobs[second].uid: {cluster.jobs[first].uid},
    }
    assert cluster.members == [{"mlr"}]
    assert cluster.waits(second).endswith("team/mlr was slower with team/mlp than in turn")


def test_separated_pairs_survive_the_operator_in_the_status() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first = cluster.add_job("mlr", GOOD)
    second = cluster.add_job("mlp", GOOD)
    cluster.set_status(second, separated_from=(cluster.jobs[first].uid,))
    cluster.plan()
    assert cluster.members == [{"mlr"}]


def test_a_job_that_is_created_again_is_kept_apart_from_nobody() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    first, second = cluster.add_job("mlr", GOOD), cluster.add_job("mlp", GOOD)
    old = cluster.jobs[first].uid
    cluster.memory.separated = {old: frozenset({cluster.jobs[second].uid})}
    cluster.set_status(second, separated_from=(old,))
    cluster.plan()
    assert cluster.members == [{"mlr"}]
    del cluster.jobs[first]
    cluster.plan()
    cluster.add_job("mlr", GOOD)
    result = cluster.plan()
    assert cluster.members == [{"mlp", "mlr"}]
    assert result.remarks.separated_from == {cluster.jobs[second].uid: frozenset()}
    assert not cluster.memory.separated


def test_a_groups_status_says_what_was_expected_and_what_came() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    pair = [cluster.add_job(name, GOOD) for name in ("mlr", "mlp")]
    cluster.settle()
    cluster.run_pods()
    (key,) = cluster.groups
    status = cluster.groups[key].status
    assert status.predicted_cycle_microseconds == 200_000
    assert status.measured_cycle_microseconds is None
    assert status.columns is not None
    assert status.columns.members == "team/mlp, team/mlr"
    assert (status.columns.slots, status.columns.predicted) == ("1 x CPU", "200ms")
    for at, iterations in ((0, 0), (24, 100), (24.1, 200)):
        cluster.now += at
        cluster.observe(iterations, *pair)
        result = cluster.plan()
    assert cluster.groups[key].status.measured_cycle_microseconds == 240_000
    assert cluster.groups[key].status.correction_percent == 120
    assert result.steps == ()


def test_what_was_measured_of_a_group_survives_the_operator() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    for name in ("mlr", "mlp"):
        cluster.add_job(name, GOOD)
    cluster.settle()
    ((key, group),) = cluster.groups.items()
    status = group.status.model_copy(update={"correction_percent": 140})
    cluster.groups[key] = replace(group, status=status)
    cluster.memory = type(cluster.memory)()
    cluster.plan()
    assert list(cluster.memory.speeds.corrections.values()) == [1.4]
