"""Carries out what a pass decided, in the order that makes a kill at any point harmless.

Steps first, each only after the one before it succeeded (but pods are made side by side); then
the status; events last, since they announce what the status says. Whatever is not done when the
process dies is decided again by the next one, from the cluster. The answer of each write goes
into the mirror.

What must last of a status is written at once. The rest waits for `QUIET_SECONDS` after a change,
so that a job which starts takes one write instead of one for each of its pods.

A create that meets an object of its name has reached its goal if that object has the same
owner; else the name belongs to somebody else, which is a problem to report.
"""

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Final

from harmony_api.job_status import HarmonyJobStatus
from harmony_operator.actions import (
    Actions,
    Annotate,
    Create,
    Delete,
    Kind,
    Manifest,
    PublishSlots,
    ReplaceGroupStatus,
    ReplaceSpec,
    Step,
    Try,
)
from harmony_operator.api_client import ApiClient, ApiError, Raw
from harmony_operator.event_posting import EventPoster
from harmony_operator.lasting import lasting
from harmony_operator.mirror import Mirror, Unwritten
from harmony_operator.observed import ApiProblem, ObjectKey, ObservedJob

QUIET_SECONDS: Final = 0.8
"""A status that may wait is written by the first look so long after one that changed it,"""
LONGEST_UNWRITTEN_SECONDS: Final = 5.0
"""or when it was not written for so long, as that of a job of which no plan has said anything."""
REHEARSAL_HOLDS_SECONDS: Final = 60.0
"""So long what the API server took is taken again: its policies and the namespace may change."""


class StepError(Exception):
    """A step was refused for a reason that lies in the cluster, not in the API server."""

    def __init__(self, problem: ApiProblem) -> None:
        super().__init__(f"{problem.what}: {problem.reason}: {problem.message}")
        self.problem = problem


class Applier:
    """Turns actions into requests."""

    def __init__(self, client: ApiClient, mirror: Mirror, events: EventPoster) -> None:
        self._client = client
        self._mirror = mirror
        self._events = events
        self._taken_until: dict[str, float] = {}
        """By what its verdict rests on: how long a rehearsal that succeeded holds."""

    async def carry_out(self, steps: tuple[Step, ...]) -> None:
        """Do the steps in order. Raises StepError, or ApiError during an outage."""
        for together, some in itertools.groupby(steps, _makes_pod):
            if together:
                done = await asyncio.gather(*map(self._carry_out, some), return_exceptions=True)
                for error in filter(None, done):
                    raise error
            else:
                for step in some:
                    await self._carry_out(step)

    async def _carry_out(self, step: Step) -> None:
        try:
            await self._do(step)
        except ApiError as error:
            if error.outage:
                raise
            raise StepError(
                ApiProblem(
                    status=error.status,
                    reason=error.reason,
                    message=error.message,
                    what=_words(step),
                    rehearsed=isinstance(step, Try),
                )
            ) from error

    async def conclude(
        self, job: ObservedJob, actions: Actions, *, at_once: bool = False
    ) -> float | None:
        """Write the job's status if it differs, then post the events. Raises ApiError.

        Returns the seconds after which to come again where the status may wait; nothing of it
        waits if it is to be told `at_once`.
        """
        status = actions.status
        if status is None or status == job.written:
            self._mirror.settle(job.key)
            return None
        if not at_once and lasting(status) == lasting(job.written):
            wait_seconds = self._wait_seconds(job, status)
            if wait_seconds > 0:
                self._mirror.assume(job, status)
                return wait_seconds
        await self._write_status(job, status)
        for event in actions.events:
            await self._events.post(job, event)
        return None

    def _wait_seconds(self, job: ObservedJob, status: HarmonyJobStatus) -> float:
        """Return how long the status of a job may still wait."""
        now = time.monotonic()
        noted = self._mirror.unwritten.get(job.key) or Unwritten(now, now)
        latest = noted.since_seconds + LONGEST_UNWRITTEN_SECONDS
        if now >= min(noted.changed_seconds + _quiet_seconds(job.status), latest):
            return 0.0
        unchanged_seconds = now - noted.changed_seconds if status == job.status else 0.0
        return min(_quiet_seconds(status) - unchanged_seconds, latest - now)

    async def _do(self, step: Step) -> None:
        match step:
            case Create():
                await self._create(step.manifest)
            case Try():
                await self._try(step)
            case Delete():
                await self._delete(step)
            case Annotate():
                patch = {"metadata": {"annotations": dict(step.annotations)}}
                await self._update(step.kind, step.key, self._client.merge, patch)
            case ReplaceSpec():
                operations = [{"op": "replace", "path": "/spec", "value": step.spec}]
                await self._update("HarmonyGroup", step.key, self._client.patch, operations)
            case ReplaceGroupStatus():
                operations = [{"op": "add", "path": "/status", "value": step.status}]
                patch_status = partial(self._client.patch, subresource="status")
                await self._update("HarmonyGroup", step.key, patch_status, operations)
            case PublishSlots():
                change = {"status": {"slots": step.slots}}
                merge_status = partial(self._client.merge, subresource="status")
                await self._update("HarmonyGroup", step.key, merge_status, change)

    async def _try(self, step: Try) -> None:
        now = time.monotonic()
        if self._taken_until.get(step.rests_on, now) > now:
            return
        try:
            await self._client.create(step.manifest, dry_run=True)
        except ApiError as error:
            if "does not support dry run" not in error.message:  # a webhook that acts elsewhere
                raise
        self._taken_until = {one: end for one, end in self._taken_until.items() if end > now}
        self._taken_until[step.rests_on] = now + REHEARSAL_HOLDS_SECONDS

    async def _create(self, manifest: Manifest) -> None:
        kind: Kind = manifest["kind"]
        try:
            self._observe(kind, await self._client.create(manifest))
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            found = await self._client.get(kind, _key_of(manifest))
            if _owners(found) != _owners(manifest):
                raise
            self._observe(kind, found)

    async def _delete(self, step: Delete) -> None:
        options: dict[str, Any] = {
            "preconditions": {"uid": step.uid},
            "propagationPolicy": "Background" if step.background else "Foreground",
        }
        if step.grace_seconds is not None:
            options["gracePeriodSeconds"] = step.grace_seconds
        try:
            answer = await self._client.delete(step.kind, step.key, options)
        except ApiError as error:
            if not await self._means_gone(error, step.kind, step.key, step.uid):
                raise
            self._forget(step.kind, step.key, step.uid)
            return
        if answer.get("kind") == step.kind and "deletionTimestamp" in answer["metadata"]:
            self._observe(step.kind, answer)
        else:
            self._forget(step.kind, step.key, step.uid)

    async def _update(
        self, kind: Kind, key: ObjectKey, change: Callable[..., Awaitable[Raw]], patch: object
    ) -> None:
        """Change an object; one that is gone needs no change, and the watch will say so."""
        try:
            self._observe(kind, await change(kind, key, patch))
        except ApiError as error:
            if error.status != 404:
                raise

    async def _write_status(self, job: ObservedJob, status: HarmonyJobStatus) -> None:
        operations: list[Raw] = [
            {"op": "test", "path": "/metadata/uid", "value": job.uid},
            {"op": "add", "path": "/status", "value": status.to_dict()},
        ]
        try:
            answer = await self._client.patch(
                "HarmonyJob", job.key, operations, subresource="status"
            )
        except ApiError as error:
            if not await self._means_gone(error, "HarmonyJob", job.key, job.uid):
                raise
            self._forget("HarmonyJob", job.key, job.uid)
            return
        self._mirror.observe_written(answer)

    async def _means_gone(self, error: ApiError, kind: Kind, key: ObjectKey, uid: str) -> bool:
        """Whether a write failed because no object, or a later one, has the name.

        A precondition that fails is a 409 or a 422, but those have other causes too.
        """
        if error.status not in (409, 422):
            return error.status == 404
        try:
            found = await self._client.get(kind, key)
        except ApiError as answer:
            if answer.status != 404:
                raise
            return True
        return bool(found["metadata"]["uid"] != uid)

    def _observe(self, kind: Kind, raw: Raw) -> None:
        self._mirror.observe(kind, raw)

    def _forget(self, kind: Kind, key: ObjectKey, uid: str) -> None:
        self._mirror.forget(kind, key, uid)


def _quiet_seconds(status: HarmonyJobStatus) -> float:
    undecided = status.state in (None, "Pending")
    return LONGEST_UNWRITTEN_SECONDS if undecided else QUIET_SECONDS


def _makes_pod(step: Step) -> bool:
    return isinstance(step, Create) and step.manifest["kind"] == "Pod"


def _key_of(manifest: Manifest) -> ObjectKey:
    metadata = manifest["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def _owners(manifest: Mapping[str, Any]) -> set[str]:
    return {one["uid"] for one in manifest["metadata"].get("ownerReferences") or ()}


def _words(step: Step) -> str:
    """Say what a step does, as in `create pod team/mlr-worker-0`."""
    match step:
        case Create() | Try():
            verb, kind, key = "create", step.manifest["kind"], _key_of(step.manifest)
        case Delete():
            verb, kind, key = "delete", step.kind, step.key
        case Annotate():
            verb, kind, key = "annotate", step.kind, step.key
        case ReplaceSpec():
            verb, kind, key = "replace the plan of", "HarmonyGroup", step.key
        case ReplaceGroupStatus() | PublishSlots():
            verb, kind, key = "replace the status of", "HarmonyGroup", step.key
    return f"{verb} {kind} {key.namespace}/{key.name}"
