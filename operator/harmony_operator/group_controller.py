"""One pass over one group: what binds its slots exists, and reservations tell their devices.

Which devices those are is written into the group's status, for people.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Final

import aiohttp

from harmony_api import labels
from harmony_api.harmony_group import BoundSlot
from harmony_api.pod_layout import RESERVATION_HTTP_PORT
from harmony_operator import metrics
from harmony_operator.actions import Annotate, Create, PublishSlots, Step
from harmony_operator.api_client import ApiError
from harmony_operator.applying import Applier, StepError
from harmony_operator.gpu_binding import GpuBinding, SlotBinding
from harmony_operator.gpu_binding.reservation import DEVICES_PATH, reported_devices
from harmony_operator.mirror import Mirror, members_of
from harmony_operator.observed import (
    ApiProblem,
    ClusterState,
    ObjectKey,
    ObservedGroup,
    ObservedReservation,
)
from harmony_operator.pod_http import url
from harmony_operator.work_queue import Retry

_UNREPORTED_SECONDS: Final = 1.0
_FAILED_SECONDS: Final = 30.0
"""A reservation that failed or leaves is looked at again then: its binding depends on the time. So
is one that another binding made, until nobody uses it."""

_logger = logging.getLogger(__name__)


class GroupController:
    """Makes the binding objects of each group equal to its slots."""

    def __init__(
        self,
        mirror: Mirror,
        applier: Applier,
        binding: GpuBinding,
        http: aiohttp.ClientSession,
        look_at_job: Callable[[ObjectKey], None],
    ) -> None:
        self._mirror = mirror
        self._applier = applier
        self._binding = binding
        self._http = http
        self._look_at_job = look_at_job

    async def look_at(self, key: ObjectKey) -> float | None:
        """Do one pass; return the seconds after which to look again. Raises Retry."""
        group = self._mirror.groups.get(key)
        if group is None or group.deleting:
            self._mirror.group_problems.pop(key, None)
            return None
        with metrics.PASS_SECONDS.labels(controller="group").time():
            state = self._mirror.group_state(key, time.time())
            existing = {("ResourceClaim", claim.name) for claim in state.claims}
            existing |= {("Pod", reservation.name) for reservation in state.reservations}
            steps: list[Step] = [
                Create(manifest)
                for manifest in self._binding.wanted(group, state)
                if (manifest["kind"], manifest["metadata"]["name"]) not in existing
            ]
            steps += self._binding.unwanted(group, state)
            waiting = [
                one for one in state.reservations.values() if not one.devices and not one.deleting
            ]
            told = await asyncio.gather(*(self._devices(one) for one in waiting))
            steps += [one for one in told if one is not None]
            bound = self._bound_slots(group, state)
            if bound != group.status.slots:
                slots = tuple(one.to_dict() for one in bound)
                steps.append(PublishSlots(key=key, slots=slots))
            try:
                await self._applier.carry_out(tuple(steps))
            except StepError as error:
                self._note(group, error.problem)
                raise Retry(str(error)) from error
            except ApiError as error:
                raise Retry(str(error)) from error
            self._note(group, None)
        left = self._binding.name != "reservation"
        if any(left or one.problem or one.deleting for one in state.reservations.values()):
            for member in members_of(group):
                self._look_at_job(member)
            return _FAILED_SECONDS
        return _UNREPORTED_SECONDS if None in told else None

    def _bound_slots(self, group: ObservedGroup, state: ClusterState) -> tuple[BoundSlot, ...]:
        with_devices = (index for index, slot in enumerate(group.spec.slots) if slot.gpus)
        bindings = (self._binding.bind(group, index, state) for index in with_devices)
        return tuple(
            BoundSlot(
                name=one.slot,
                devices=one.devices or (),
                claim_name=one.claim_name,
                reservation_pod=one.reservation_pod,
            )
            for one in bindings
            if isinstance(one, SlotBinding)
        )

    def _note(self, group: ObservedGroup, problem: ApiProblem | None) -> None:
        """Remember what was refused, and have the members say it."""
        before = self._mirror.group_problems.pop(group.key, None)
        if problem is not None:
            self._mirror.group_problems[group.key] = problem
        if problem != before:
            for member in members_of(group):
                self._look_at_job(member)

    async def _devices(self, reservation: ObservedReservation) -> Step | None:
        """Ask a reservation pod which devices it has; None: it does not tell yet."""
        if reservation.phase != "Running" or not reservation.ip:
            return None
        where = url(reservation.ip, RESERVATION_HTTP_PORT, DEVICES_PATH)
        try:
            async with self._http.get(where) as response:
                response.raise_for_status()
                devices = reported_devices(await response.text())
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            _logger.info("%s does not tell its devices yet: %s", reservation.key, error)
            return None
        except ValueError as error:
            _logger.warning("%s: %s", reservation.key, error)
            return None
        return Annotate(
            kind="Pod",
            key=reservation.key,
            annotations={labels.DEVICES: ",".join(devices)},
        )
