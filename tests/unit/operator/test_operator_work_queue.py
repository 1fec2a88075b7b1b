"""The queue of keys: nothing is lost, nothing is done twice at once."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harmony_operator import work_queue
from harmony_operator.work_queue import Retry, WorkQueue


async def until(condition: object, seconds: float = 10.0) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # type: ignore[operator]
            await asyncio.sleep(0.001)


def run(scenario: object) -> None:
    asyncio.run(scenario())  # type: ignore[operator]


def test_a_key_added_many_times_while_it_waits_is_worked_on_once() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        seen: list[str] = []

        async def worker(key: str) -> None:
            seen.append(key)

        for _ in range(5):
            queue.add("a")
        queue.add("b")
        task = asyncio.create_task(queue.work(worker, 2))
        await until(lambda: len(seen) == 2)
        await asyncio.sleep(0)
        assert sorted(seen) == ["a", "b"]
        task.cancel()

    run(scenario)


def test_news_during_the_work_on_a_key_lead_to_one_more_look() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        go_on = asyncio.Event()
        looks = 0

        async def worker(key: str) -> None:
            nonlocal looks
            looks += 1
            await go_on.wait()

        queue.add("a")
        task = asyncio.create_task(queue.work(worker, 4))
        await until(lambda: looks == 1)
        for _ in range(3):
            queue.add("a")
        go_on.set()
        await until(lambda: looks == 2)
        await asyncio.sleep(0.01)
        assert looks == 2
        task.cancel()

    run(scenario)


def test_what_becomes_due_during_the_work_on_a_key_leads_to_one_more_look_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(work_queue, "AFTER_WORK_SECONDS", 0.001)

    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        go_on = asyncio.Event()
        looks = 0

        async def worker(_: str) -> None:
            nonlocal looks
            looks += 1
            queue.add_after("a", 0.0 if looks == 1 else 60.0)
            await go_on.wait()

        queue.add("a")
        task = asyncio.create_task(queue.work(worker, 4))
        await asyncio.sleep(0.01)
        assert looks == 1
        go_on.set()
        await until(lambda: looks == 2)
        task.cancel()

    run(scenario)


def test_news_go_before_what_is_due_which_never_stands_still() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        order: list[str] = []

        async def worker(key: str) -> None:
            order.append(key)
            if key == "news" and order.count("due") < 3:
                queue.add("news")
            await asyncio.sleep(0)

        for name in ("due", "due too"):
            queue.add_after(name, 0.0)
        queue.add_after("became news", 0.0)
        await asyncio.sleep(0.01)
        for name in ("became news", "first", "second", "third"):
            queue.add(name)
        task = asyncio.create_task(queue.work(worker, 4))
        await until(lambda: len(order) == 6)
        assert order == ["due", "became news", "first", "second", "due too", "third"]
        task.cancel()

    run(scenario)


def test_a_failed_key_is_tried_again_and_others_are_not_held_up() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        tries: Counter[str] = Counter()

        async def worker(key: str) -> None:
            tries[key] += 1
            if key == "bad" and tries[key] < 3:
                raise Retry("not now")

        queue.add("bad")
        queue.add("good")
        task = asyncio.create_task(queue.work(worker, 1))
        await until(lambda: tries["good"] == 1)
        await until(lambda: tries["bad"] == 3)
        task.cancel()

    run(scenario)


def test_of_several_later_looks_the_earliest_comes_and_a_bug_does_not_end_the_queue() -> None:
    async def scenario() -> None:
        queue: WorkQueue[str] = WorkQueue()
        times: list[float] = []
        loop = asyncio.get_running_loop()

        async def worker(key: str) -> float | None:
            times.append(loop.time())
            if len(times) == 1:
                raise ZeroDivisionError
            return None

        queue.add_after("a", 60.0)
        queue.add_after("a", 0.02)
        queue.add_after("a", 30.0)
        task = asyncio.create_task(queue.work(worker, 1))
        await until(lambda: len(times) == 2)
        task.cancel()

    run(scenario)


@settings(max_examples=60, deadline=None)
@given(
    additions=st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0.0, 0.001, 0.002])), max_size=25
    ),
    at_once=st.integers(1, 4),
)
def test_every_addition_is_followed_by_a_look_and_no_key_is_in_two_hands(
    additions: list[tuple[int, float]], at_once: int
) -> None:
    async def scenario() -> None:
        queue: WorkQueue[int] = WorkQueue()
        news: Counter[int] = Counter()
        looked: Counter[int] = Counter()
        busy: set[int] = set()

        async def worker(key: int) -> None:
            assert key not in busy
            busy.add(key)
            seen = news[key]
            await asyncio.sleep(0.0005)
            looked[key] = seen
            busy.discard(key)

        task = asyncio.create_task(queue.work(worker, at_once))
        for key, pause in additions:
            news[key] += 1
            queue.add(key)
            if pause:
                await asyncio.sleep(pause)
        await until(lambda: looked == news)
        assert not task.done()
        task.cancel()

    run(scenario)
