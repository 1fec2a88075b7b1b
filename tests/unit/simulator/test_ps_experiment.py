from harmony_simulator.experiments import ps_ratios


def test_uncoordinated_sharing_gains_a_little_and_fixed_partitions_nothing() -> None:
    ratios = ps_ratios("AtOnce", [1], policies=["naive", "partitions"], processes=1)
    (naive,), (partitions,) = ratios["naive"], ratios["partitions"]
    assert 0.7 < naive.makespan < 0.95
    assert naive.utilisation > 1.05
    assert 0.95 < partitions.makespan < 1.2
