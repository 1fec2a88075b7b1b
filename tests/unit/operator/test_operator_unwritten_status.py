"""A status that is yet to be written: seen by every decision, lost by no kill that matters."""

import asyncio
from typing import Any

import pytest

from harmony_api.conditions import Condition
from harmony_api.job_status import AssignedGroup, HarmonyJobStatus
from harmony_operator import applying
from harmony_operator.actions import Actions, Create, Event, Try
from harmony_operator.api_client import ApiError
from harmony_operator.applying import Applier, StepError
from harmony_operator.lasting import lasting
from harmony_operator.mirror import Mirror
from harmony_operator.observed import ObjectKey

KEY = ObjectKey("team", "mlr")
EVENT = Event(type="Normal", reason="Placed", message="alone on a/cpu-0")


def condition(kind: str, status: str, reason: str = "Because") -> Condition:
    return Condition(
        type=kind, status=status, reason=reason, message="",
        last_transition_time="2027-01-15T08:00:00Z",
    )  # fmt: skip


NEW = HarmonyJobStatus()
GOING_ON = HarmonyJobStatus(
    state="Starting",
    group=AssignedGroup(name="g", namespace="team", slots=2),
    conditions=(
        condition("Valid", "True"),
        condition("Admitted", "True"),
        condition("Running", "False"),
        condition("Suspended", "False"),
        condition("Succeeded", "Unknown"),
        condition("Failed", "Unknown"),
    ),
)
RUNNING = GOING_ON.model_copy(update={"state": "Running"})


def raw(version: int, status: HarmonyJobStatus = NEW, uid: str = "u") -> dict[str, Any]:
    template = {"spec": {"containers": [{"name": "worker", "image": "i"}]}}
    return {
        "metadata": {
            "namespace": "team", "name": "mlr", "uid": uid, "resourceVersion": str(version),
        },
        "spec": {"workers": {"template": template}},
        "status": status.to_dict(),
    }  # fmt: skip


def mirror() -> Mirror:
    seen = Mirror(lambda _: None)
    seen.observe("HarmonyJob", raw(1))
    return seen


class Server:
    """Answers writes as an API server does, and keeps what was written."""

    def __init__(self) -> None:
        self.statuses: list[HarmonyJobStatus] = []
        self.tried: list[str] = []
        self.made: list[str] = []
        self.events: list[Event] = []
        self.refused: frozenset[str] = frozenset()
        self.waits = asyncio.Event()
        self.waits.set()

    async def patch(self, _: str, key: ObjectKey, operations: Any, **__: object) -> dict[str, Any]:
        self.statuses.append(HarmonyJobStatus.model_validate(operations[-1]["value"]))
        return raw(10 + len(self.statuses), self.statuses[-1])

    async def create(self, manifest: dict[str, Any], *, dry_run: bool = False) -> dict[str, Any]:
        name = manifest["metadata"]["name"]
        (self.tried if dry_run else self.made).append(name)
        await self.waits.wait()
        if name in self.refused:
            raise ApiError(403, "Forbidden", f"no {name}")
        return manifest

    async def post(self, _: object, event: Event) -> None:
        self.events.append(event)


def applier_of(seen: Mirror, server: Any) -> Applier:
    return Applier(server, seen, server)


def pod(name: str) -> dict[str, Any]:
    metadata = {"namespace": "team", "name": name, "uid": name, "resourceVersion": "3"}
    return {"kind": "Pod", "metadata": metadata}


def test_a_new_job_and_one_that_goes_on_have_nothing_to_lose() -> None:
    assert lasting(NEW) == lasting(GOING_ON) == lasting(RUNNING)


@pytest.mark.parametrize(
    "change",
    [
        {"restarts": 1},
        {"succeeded_workers": (0,)},
        {"preempted_by": "team/other"},
        {"conditions": (condition("Suspended", "True"),)},
        {"conditions": (condition("Valid", "False"),)},
        {"conditions": (condition("Succeeded", "True"),)},
    ],
)
def test_whatever_is_remembered_nowhere_else_must_be_written(change: dict[str, Any]) -> None:
    assert lasting(NEW.model_copy(update=change)) != lasting(NEW)


def test_a_status_that_is_yet_to_be_written_outlives_other_news_of_the_job() -> None:
    seen = mirror()
    seen.assume(seen.jobs[KEY], GOING_ON)
    changed = raw(2)
    changed["metadata"]["labels"] = {"a": "b"}
    seen.observe("HarmonyJob", changed)
    assert seen.jobs[KEY].status == GOING_ON
    assert seen.jobs[KEY].written == NEW
    assert seen.jobs[KEY].labels == {"a": "b"}
    seen.observe("HarmonyJob", raw(3, GOING_ON))
    assert seen.jobs[KEY].written == seen.jobs[KEY].status == GOING_ON
    assert not seen.unwritten


@pytest.mark.parametrize("news", [raw(2, NEW.model_copy(update={"restarts": 1})), raw(2, uid="v")])
def test_it_gives_way_to_a_written_one_that_must_last_and_to_another_job(
    news: dict[str, Any],
) -> None:
    seen = mirror()
    seen.assume(seen.jobs[KEY], GOING_ON)
    seen.observe("HarmonyJob", news)
    assert seen.jobs[KEY].status == HarmonyJobStatus.model_validate(news["status"])
    assert not seen.unwritten or news["metadata"]["uid"] == "v"


def test_a_job_that_starts_takes_one_write_and_its_event_comes_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def run() -> None:
        seen, server = mirror(), Server()
        applier = applier_of(seen, server)
        for status in (GOING_ON, RUNNING):
            wait = await applier.conclude(seen.jobs[KEY], Actions(status=status, events=(EVENT,)))
            assert wait is not None
            assert 0 < wait <= applying.QUIET_SECONDS
            assert seen.jobs[KEY].status == status
        assert (server.statuses, server.events) == ([], [])
        monkeypatch.setattr(applying, "QUIET_SECONDS", 0.0)
        actions = Actions(status=RUNNING, events=(EVENT,))
        assert await applier.conclude(seen.jobs[KEY], actions) is None
        assert (server.statuses, server.events) == ([RUNNING], [EVENT])
        assert await applier.conclude(seen.jobs[KEY], Actions(status=RUNNING)) is None
        assert server.statuses == [RUNNING]

    asyncio.run(run())


def test_what_must_last_is_written_at_once_and_assumed_by_nobody_before() -> None:
    ended = GOING_ON.model_copy(update={"restarts": 1})

    class Away(Server):
        async def patch(self, *_: object, **__: object) -> dict[str, Any]:
            raise ApiError(503, "ServiceUnavailable", "away")

    async def run() -> None:
        seen = mirror()
        with pytest.raises(ApiError):
            await applier_of(seen, Away()).conclude(seen.jobs[KEY], Actions(status=ended))
        assert seen.jobs[KEY].status == NEW
        server = Server()
        await applier_of(seen, server).conclude(seen.jobs[KEY], Actions(status=ended))
        assert server.statuses == [ended]
        assert seen.jobs[KEY].status == ended

    asyncio.run(run())


def test_a_status_that_changed_back_is_not_written() -> None:
    async def run() -> None:
        seen, server = mirror(), Server()
        applier = applier_of(seen, server)
        await applier.conclude(seen.jobs[KEY], Actions(status=GOING_ON))
        assert await applier.conclude(seen.jobs[KEY], Actions(status=NEW)) is None
        assert seen.jobs[KEY].status == NEW
        assert not server.statuses

    asyncio.run(run())


def test_what_rests_on_the_same_is_tried_once_but_a_refusal_each_time() -> None:
    async def run() -> None:
        server = Server()
        applier = applier_of(mirror(), server)
        await applier.carry_out((Try(pod("a"), "one spec"),))
        await applier.carry_out((Try(pod("b"), "one spec"),))
        assert server.tried == ["a"]
        server.refused = frozenset({"c", "d"})
        for name in ("c", "d"):
            with pytest.raises(StepError):
                await applier.carry_out((Try(pod(name), "another"),))
        assert server.tried == ["a", "c", "d"]

    asyncio.run(run())


def test_pods_are_made_side_by_side_and_the_first_refusal_is_told() -> None:
    async def run() -> None:
        server = Server()
        server.waits.clear()
        server.refused = frozenset({"b", "c"})
        steps = tuple(Create(pod(name)) for name in ("a", "b", "c"))
        task = asyncio.create_task(applier_of(mirror(), server).carry_out(steps))
        while len(server.made) < 3:
            await asyncio.sleep(0)
        server.waits.set()
        with pytest.raises(StepError, match="no b"):
            await task

    asyncio.run(run())
