"""Devices bound by a pod of the operator's that takes them, where a device plugin hands them out.

The plugin gives a device to one pod; so one small pod per slot takes the slot's, tells which
they are, and every member's worker is created with those in its environment. The operator
writes the answer down on the pod: a fact that outlives the operator, and goes with the pod.
"""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

from harmony_api.conditions import RunningReason
from harmony_api.harmony_group import GroupSlot
from harmony_api.pod_layout import RESERVATION_HTTP_PORT
from harmony_operator.actions import Delete, Manifest
from harmony_operator.builders.names import slot_object_name
from harmony_operator.builders.ownership import slot_metadata
from harmony_operator.builders.placement import on_node, tolerate_devices, tolerations_of
from harmony_operator.builders.sidecar import HARDENED
from harmony_operator.gpu_binding import BindingProblem, SlotBinding
from harmony_operator.gpu_binding.leftovers import left_claims
from harmony_operator.gpu_binding.none import cpu_binding
from harmony_operator.observed import ClusterState, ObjectKey, ObservedGroup, ObservedReservation
from harmony_operator.occupants import STUCK_SECONDS
from harmony_operator.settings import OperatorSettings

DEVICES_PATH: Final = "/devices"
"""What a reservation pod answers there is the value of the annotation harmony.dev/devices."""
PATIENCE_SECONDS: Final = 60.0
"""How long a pod may be unschedulable before the slot counts as failed."""
RETRY_SECONDS: Final = 120.0
"""At least so long lies between two tries to reserve a slot."""

_DOES_NOT_GO: Final = "it was deleted and is still there: look at its finalizers and its node"
_UUID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}")


def reported_devices(answer: str) -> tuple[str, ...]:
    """Return the UUIDs that a reservation pod reports. Raises ValueError where it reports none."""
    devices = tuple(answer.strip().split(","))
    if len(set(devices)) != len(devices) or not all(map(_UUID.fullmatch, devices)):
        raise ValueError(f"a reservation pod answered {answer[:200]!r} instead of UUIDs")
    return devices


class ReservationBinding:
    """Binds devices by pods."""

    name: Literal["reservation"] = "reservation"
    crosses_namespaces = True

    def __init__(self, settings: OperatorSettings) -> None:
        self._settings = settings

    def wanted(self, group: ObservedGroup, state: ClusterState) -> tuple[Manifest, ...]:
        """Return a pod for every slot with devices, which can go where the members' pods can.

        It is as important as the most important of them: its end is the end of what they do.
        """
        tolerations = [tolerate_devices(self._settings.gpu_resource)]
        classes = []
        for member in group.spec.members:
            job = state.jobs.get(ObjectKey(member.namespace, member.job))
            given = () if job is None else tolerations_of(job.raw_spec)
            tolerations += [one for one in given if one not in tolerations]
            priority_class = job.job.spec.priority_class_name if job and job.job else None
            if priority_class is not None and priority_class in state.priorities:
                classes.append(priority_class)
        spec: dict[str, Any] = {"tolerations": tolerations}
        if classes:
            spec["priorityClassName"] = max(classes, key=lambda one: state.priorities[one])
        return tuple(self._pod(group, slot, spec) for slot in group.spec.slots if slot.gpus)

    def unwanted(self, group: ObservedGroup, state: ClusterState) -> tuple[Delete, ...]:
        """Return the pods of slots that the group has no more, and those that shall try again.

        Those of an earlier group of the same name go too.
        """
        kept = {pod["metadata"]["name"] for pod in self.wanted(group, state)}
        pods = (
            Delete(kind="Pod", key=one.key, uid=one.uid)
            for one in state.reservations.values()
            if (one.key.namespace, one.group) == group.key
            and not one.deleting
            and (
                one.key.name not in kept
                or one.owner_uid != group.uid
                or (one.problem and state.now_seconds - one.created_seconds >= RETRY_SECONDS)
            )
        )
        return (*pods, *left_claims(group, state))

    def bind(
        self, group: ObservedGroup, slot: int, state: ClusterState
    ) -> SlotBinding | BindingProblem | None:
        """Return how to use the slot; None until its pod has reported its devices."""
        used = group.spec.slots[slot]
        if not used.gpus:
            return cpu_binding(used)
        key = ObjectKey(group.key.namespace, slot_object_name(group.key.name, used.name))
        reservation = state.reservations.get(key)
        if reservation is None:
            return None
        problem = _problem(reservation, used.gpus, state.now_seconds)
        if problem:
            tried = f"; it is tried again every {RETRY_SECONDS:.0f} s"
            again = "" if reservation.deleting else tried
            return BindingProblem(
                reason=RunningReason.GPU_BINDING_FAILED,
                message=f"the pod {key.namespace}/{key.name}, which reserves {used.gpus} x "
                f"{self._settings.gpu_resource} on node {used.node}, failed: {problem}{again}",
            )
        if not reservation.devices or reservation.deleting or reservation.owner_uid != group.uid:
            return None
        return SlotBinding(
            slot=used.name,
            node=used.node,
            devices=reservation.devices,
            reservation_pod=key.name,
            visible_devices=",".join(reservation.devices),
            runtime_class=self._settings.runtime_class,
        )

    def _pod(
        self, group: ObservedGroup, slot: GroupSlot, given: Mapping[str, Any]
    ) -> dict[str, Any]:
        settings = self._settings
        about_itself = {
            "NODE_NAME": "spec.nodeName",
            "POD_NAME": "metadata.name",
            "POD_IP": "status.podIP",
        }
        container = {
            "name": "reservation",
            "image": settings.sidecar_image,
            "imagePullPolicy": settings.image_pull_policy,
            "command": ["python", "-m", "harmony_sidecar.device_report"],
            "env": [
                *(
                    {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}
                    for name, path in about_itself.items()
                ),
                *(
                    {"name": name, "value": value}
                    for name, value in settings.reservation_environment.items()
                ),
            ],
            "ports": [{"name": "devices", "containerPort": RESERVATION_HTTP_PORT}],
            "readinessProbe": {
                "httpGet": {"path": DEVICES_PATH, "port": RESERVATION_HTTP_PORT},
                "periodSeconds": 1,
            },
            "resources": {
                "requests": {"cpu": "10m", "memory": "32Mi"},
                "limits": {settings.gpu_resource: str(slot.gpus), "memory": "128Mi"},
            },
            "securityContext": HARDENED,
        }
        spec: dict[str, Any] = {
            "affinity": on_node(None, slot.node),
            "automountServiceAccountToken": False,
            "containers": [container],
            "enableServiceLinks": False,
            "terminationGracePeriodSeconds": 5,
            **given,
        }
        if settings.runtime_class is not None:
            spec["runtimeClassName"] = settings.runtime_class
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": slot_metadata(group, slot, "reservation"),
            "spec": spec,
        }


def failure(reservation: ObservedReservation, now_seconds: float) -> tuple[float, str] | None:
    """Return since when the pod has failed beyond hope, and why; None: it has not."""
    if reservation.deleting_since_seconds is not None:
        since, why = reservation.deleting_since_seconds + STUCK_SECONDS, _DOES_NOT_GO
    elif reservation.problem:
        since, why = reservation.created_seconds + PATIENCE_SECONDS, reservation.problem
    else:
        return None
    return (since, why) if now_seconds >= since else None


def _problem(reservation: ObservedReservation, gpus: int, now_seconds: float) -> str:
    unschedulable = reservation.problem and not reservation.node and reservation.phase == "Pending"
    if reservation.deleting or unschedulable:
        failed = failure(reservation, now_seconds)
        return failed[1] if failed else ""
    reported = len(reservation.devices)
    if not reservation.problem and reported not in (0, gpus):
        return f"it reports {reported} devices"
    return reservation.problem
