from hypothesis import given
from hypothesis import strategies as st

from harmony_worker.blocks import BlockOrder


@st.composite
def orders(draw: st.DrawFn) -> BlockOrder:
    workers = draw(st.integers(1, 5))
    samples = draw(st.integers(workers, 200))
    return BlockOrder(samples, draw(st.integers(1, 50)), workers, draw(st.integers(0, 2**40)))


def epoch_of(order: BlockOrder, epoch: int) -> list[list[int]]:
    first = epoch * order.iterations_per_epoch
    return [
        order.batch(iteration, worker).tolist()
        for iteration in range(first, first + order.iterations_per_epoch)
        for worker in range(order.workers)
    ]


@given(orders(), st.integers(0, 3))
def test_every_sample_is_used_once_per_epoch_over_all_workers(
    order: BlockOrder, epoch: int
) -> None:
    used = [sample for batch in epoch_of(order, epoch) for sample in batch]
    assert sorted(used) == list(range(order.samples))


@given(orders())
def test_batches_differ_by_one_sample_at_most_and_none_is_empty(order: BlockOrder) -> None:
    sizes = [len(batch) for batch in epoch_of(order, 0)]
    assert min(sizes) >= 1
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(1, 5), st.integers(2, 50), st.integers(5, 200))
def test_no_batch_is_larger_than_asked_for(workers: int, batch_size: int, samples: int) -> None:
    order = BlockOrder(samples, batch_size, workers, seed=0)
    assert max(len(batch) for batch in epoch_of(order, 0)) <= batch_size


@given(orders(), st.integers(0, 1000))
def test_a_batch_depends_on_the_iteration_and_not_on_those_before(
    order: BlockOrder, iteration: int
) -> None:
    for earlier in range(max(0, iteration - 3), iteration):
        order.batch(earlier, 0)
    batch_size = max(1, order.samples // order.iterations_per_epoch // order.workers)
    fresh = BlockOrder(order.samples, batch_size, order.workers, order.seed)
    fresh.iterations_per_epoch = order.iterations_per_epoch
    for worker in range(order.workers):
        assert (fresh.batch(iteration, worker) == order.batch(iteration, worker)).all()


def test_epochs_and_seeds_are_shuffled_differently() -> None:
    order = BlockOrder(samples=100, batch_size=100, workers=1, seed=1)
    other = BlockOrder(samples=100, batch_size=100, workers=1, seed=2)
    assert (order.batch(0, 0) != order.batch(1, 0)).any()
    assert (order.batch(0, 0) != other.batch(0, 0)).any()
