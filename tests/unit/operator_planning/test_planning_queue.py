"""The operator's queue, by submission or the shortest first."""

from dataclasses import replace

from planning_cluster import GOOD, SETTINGS, Cluster

from harmony_api.job_status import Progress

SHORTEST_FIRST = replace(SETTINGS, queue_order="ShortestFirst")
EXCLUSIVE = {"sharing": {"policy": "Exclusive"}}


def test_the_earliest_job_gets_the_slot() -> None:
    cluster = Cluster()
    cluster.add_nodes("a")
    cluster.add_job("long", GOOD, iterations=10_000, **EXCLUSIVE)
    cluster.add_job("short", GOOD, iterations=10, **EXCLUSIVE)
    cluster.plan()
    assert cluster.members == [{"long"}]


def test_the_one_that_will_be_done_first_gets_it_where_the_order_says_so() -> None:
    cluster = Cluster(settings=SHORTEST_FIRST)
    cluster.add_nodes("a")
    cluster.add_job("open-ended", GOOD, **EXCLUSIVE)
    cluster.add_job("long", GOOD, iterations=10_000, **EXCLUSIVE)
    cluster.add_job("short", GOOD, iterations=10, **EXCLUSIVE)
    cluster.plan()
    assert cluster.members == [{"short"}]


def test_what_a_job_has_done_counts_no_more() -> None:
    cluster = Cluster(settings=SHORTEST_FIRST)
    cluster.add_nodes("a")
    nearly_done = cluster.add_job("nearly-done", GOOD, iterations=10_000, **EXCLUSIVE)
    cluster.add_job("short", GOOD, iterations=10, **EXCLUSIVE)
    cluster.set_status(nearly_done, progress=Progress(iteration=9_999))
    cluster.plan()
    assert cluster.members == [{"nearly-done"}]


def test_an_hour_of_waiting_ends_the_overtaking() -> None:
    cluster = Cluster(settings=SHORTEST_FIRST)
    cluster.add_nodes("a")
    cluster.add_job("long", GOOD, iterations=10_000, **EXCLUSIVE)
    cluster.now += 3700
    cluster.add_job("short", GOOD, iterations=10, **EXCLUSIVE)
    cluster.plan()
    assert cluster.members == [{"long"}]
