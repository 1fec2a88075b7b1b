"""The cluster as the operator knows it: what the watches brought, and its own writes.

A watch lags behind a write, and a decision on a view from before the operator's own last write
would be taken twice. So the answer of every write goes into the mirror at once, and news of an
object count only if its resource version is higher than the known one (versions are numbers
that grow, which clients may rely on since Kubernetes 1.35). What was deleted stays deleted
although older news of it may still arrive: a uid is never used again.

A change that no decision can see, such as another heartbeat of a node, is no change: nobody
is told.

A status that is yet to be written is a job's status here already. It never differs from the
written one in what must last (see `lasting`).
"""

import time
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, TypeVar

from harmony_api.job_status import HarmonyJobStatus
from harmony_operator import parsing
from harmony_operator.lasting import lasting
from harmony_operator.mirrored import MirroredKind, Observed, Priority, Slice, parse
from harmony_operator.observed import (
    ApiProblem,
    ClusterState,
    LiveWorker,
    ObjectKey,
    ObservedClaim,
    ObservedDevice,
    ObservedGroup,
    ObservedJob,
    ObservedNode,
    ObservedPod,
    ObservedReservation,
    ObservedService,
    VolumeClaim,
)
from harmony_operator.parsing import Raw

_Value = TypeVar("_Value")
_At = TypeVar("_At", ObjectKey, str)
_DELETED_UIDS_KEPT: Final = 10_000
"""Older news than this many deletions ago are not expected any more."""


@dataclass(frozen=True)
class Change:
    """An object that is new, different or gone."""

    kind: MirroredKind
    key: ObjectKey
    before: Observed | None
    after: Observed | None


@dataclass
class _Known:
    uid: str
    version: int
    observed: Observed | None
    """None where the object cannot be understood, or is not Harmony's."""


@dataclass(frozen=True)
class Unwritten:
    """Since when a job's status is not written, by the monotonic clock."""

    since_seconds: float
    changed_seconds: float
    """When it changed last."""


class Mirror:
    """All that is known, with the look-ups that decisions about one job need.

    Used by one event loop only; `state` and `job_state` hand out views that are valid until
    it runs other tasks.
    """

    def __init__(self, tell: Callable[[Change], None]) -> None:
        """`tell` hears of every change, after it is in the mirror."""
        self._tell = tell
        self._known: dict[MirroredKind, dict[ObjectKey, _Known]] = defaultdict(dict)
        self._deleted: OrderedDict[str, None] = OrderedDict()
        self.jobs: dict[ObjectKey, ObservedJob] = {}
        self.groups: dict[ObjectKey, ObservedGroup] = {}
        self.pods: dict[ObjectKey, ObservedPod] = {}
        self.reservations: dict[ObjectKey, ObservedReservation] = {}
        self.nodes: dict[str, ObservedNode] = {}
        self.claims: dict[ObjectKey, ObservedClaim] = {}
        self.services: dict[ObjectKey, ObservedService] = {}
        self.live: dict[ObjectKey, dict[int, LiveWorker]] = {}
        """What sidecars answered, by job and worker; written by whoever asks them."""
        self.problems: dict[ObjectKey, ApiProblem] = {}
        """By job: a write of the last pass that was refused; written by the job controller."""
        self.group_problems: dict[ObjectKey, ApiProblem] = {}
        """By group: the same, written by the group controller."""
        self.unwritten: dict[ObjectKey, Unwritten] = {}
        """By job: since when its status is yet to be written."""
        self.volume_claims: dict[ObjectKey, VolumeClaim] = {}
        self._slices: dict[ObjectKey, Slice] = {}
        self._priorities: dict[str, Priority] = {}
        self._devices: tuple[ObservedDevice, ...] | None = ()
        self._pods_of: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._pods_on: dict[str, set[ObjectKey]] = defaultdict(set)
        """Keys of workers by the slot that they were made for."""
        self._groups_of: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._bound_of: dict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        """Keys of claims and reservations by group."""

    def observe(self, kind: MirroredKind, raw: Raw) -> None:
        """Take an object as a watch, a list or the answer to a write shows it."""
        metadata = raw["metadata"]
        key, uid = parsing.key_of(raw), metadata.get("uid", "")
        version = int(metadata.get("resourceVersion") or 0)
        known = self._known[kind].get(key)
        if uid in self._deleted or (known and known.version >= version):
            return
        observed = parse(kind, raw)
        if isinstance(observed, ObservedJob) and known is not None and known.uid == uid:
            observed = self._with_unwritten(observed, known.observed)
        self._known[kind][key] = _Known(uid, version, observed)
        self._replace(kind, key, known.observed if known else None, observed)

    def assume(self, job: ObservedJob, status: HarmonyJobStatus) -> None:
        """Take a status as the job's which is yet to be written."""
        known = self._known["HarmonyJob"].get(job.key)
        if known is None or known.uid != job.uid or not isinstance(known.observed, ObservedJob):
            return
        before, now = known.observed, time.monotonic()
        if status != before.status:
            since = self.unwritten.get(job.key)
            self.unwritten[job.key] = Unwritten(since.since_seconds if since else now, now)
            known.observed = replace(before, status=status, unlike=before.written)
            self._replace("HarmonyJob", job.key, before, known.observed)

    def observe_written(self, raw: Raw) -> None:
        """Take a HarmonyJob as the answer to a write of its status shows it."""
        key = parsing.key_of(raw)
        self.unwritten.pop(key, None)
        self.observe("HarmonyJob", raw)
        self.settle(key)

    def settle(self, key: ObjectKey) -> None:
        """Take the status that was written as the job's again."""
        self.unwritten.pop(key, None)
        known = self._known["HarmonyJob"].get(key)
        before = known.observed if known else None
        if known is not None and isinstance(before, ObservedJob) and before.unlike is not None:
            known.observed = replace(before, status=before.written, unlike=None)
            self._replace("HarmonyJob", key, before, known.observed)

    def _with_unwritten(self, job: ObservedJob, before: Observed | None) -> ObservedJob:
        """Return what was read with the status that is yet to be written, if that still holds."""
        if job.key not in self.unwritten or not isinstance(before, ObservedJob):
            return job
        if job.status == before.status or lasting(job.status) != lasting(before.status):
            self.unwritten.pop(job.key, None)
            return job
        return replace(job, status=before.status, unlike=job.status)

    def forget(self, kind: MirroredKind, key: ObjectKey, uid: str) -> None:
        """Take note that the object with this uid is gone."""
        self._deleted[uid] = None
        if len(self._deleted) > _DELETED_UIDS_KEPT:
            self._deleted.popitem(last=False)
        known = self._known[kind].get(key)
        if known is not None and known.uid == uid:
            if kind == "HarmonyJob":
                self.unwritten.pop(key, None)
            del self._known[kind][key]
            self._replace(kind, key, known.observed, None)

    def known(self, kind: MirroredKind) -> Mapping[ObjectKey, tuple[str, int]]:
        """Return uid and resource version of each object of a kind, understood or not."""
        return {key: (one.uid, one.version) for key, one in self._known[kind].items()}

    def knows(self, kind: MirroredKind, key: ObjectKey, uid: str, version: int) -> bool:
        """Whether the object was seen in this version or a later one, be it gone already."""
        known = self._known[kind].get(key)
        return uid in self._deleted or (known is not None and known.version >= version)

    def state(self, now_seconds: float) -> ClusterState:
        """Return all of it, as copies that stay as they are."""
        return ClusterState(
            now_seconds=now_seconds,
            jobs=dict(self.jobs),
            pods=dict(self.pods),
            groups=dict(self.groups),
            nodes=dict(self.nodes),
            claims=dict(self.claims),
            reservations=dict(self.reservations),
            services=dict(self.services),
            live={key: dict(workers) for key, workers in self.live.items()},
            **self._shared(),
        )

    def job_state(self, key: ObjectKey, now_seconds: float) -> ClusterState:
        """Return what concerns one job: it, its groups with their other members, and pods.

        Those are its own, and the workers on the groups' slots. Groups for which its pods were
        made are among its groups until the last of these has left.
        """
        listing = self._groups_of.get(key, set())
        made_for = {self.pods[pod].group for pod in self._pods_of.get(key, ())}
        spaces = {key.namespace, *(group.namespace for group in listing)}
        left = {ObjectKey(space, name) for space in spaces for name in made_for if name}
        groups = _of(self.groups, listing | left)
        slots = (slot.name for group in groups.values() for slot in group.spec.slots)
        pods = self._pods_of.get(key, set()).union(*(self._pods_on.get(one, ()) for one in slots))
        refused = [self.problems.get(key), *map(self.group_problems.get, groups)]
        problem = next((one for one in refused if one is not None), None)
        return self._part(
            now_seconds, {key}, groups, pods, {} if problem is None else {key: problem}
        )

    def group_state(self, key: ObjectKey, now_seconds: float) -> ClusterState:
        """Return what concerns one group: it, its members, their pods, what binds its slots."""
        groups = _of(self.groups, (key,))
        members = {job for group in groups.values() for job in members_of(group)}
        pods = {pod for job in members for pod in self._pods_of.get(job, ())}
        return self._part(now_seconds, members, groups, pods, {})

    def _part(
        self,
        now_seconds: float,
        jobs: set[ObjectKey],
        groups: dict[ObjectKey, ObservedGroup],
        pods: Iterable[ObjectKey],
        problems: dict[ObjectKey, ApiProblem],
    ) -> ClusterState:
        """Return jobs with those that share their groups, pods, and what binds the groups."""
        jobs = jobs.union(*map(members_of, groups.values()))
        bound = [one for group in groups for one in self._bound_of.get(group, ())]
        return ClusterState(
            now_seconds=now_seconds,
            jobs=_of(self.jobs, jobs),
            pods=_of(self.pods, pods),
            groups=groups,
            nodes=self.nodes,
            claims=_of(self.claims, bound),
            reservations=_of(self.reservations, bound),
            services=self.services,
            live=_of(self.live, jobs),
            problems=problems,
            **self._shared(),
        )

    def groups_of(self, key: ObjectKey) -> Iterable[ObservedGroup]:
        """Return the groups that list a job: one, but for moments of change."""
        return [self.groups[one] for one in self._groups_of.get(key, ())]

    def members_on(self, slot: str) -> set[ObjectKey]:
        """Return the jobs that are members of a group with this slot."""
        return {
            member
            for group in self.groups.values()
            if any(one.name == slot for one in group.spec.slots)
            for member in members_of(group)
        }

    def _shared(self) -> dict[str, Any]:
        return {
            "volume_claims": self.volume_claims,
            "devices": self._all_devices(),
            "priorities": {name: one.value for name, one in self._priorities.items()},
            "default_priority": max(
                (one.value for one in self._priorities.values() if one.is_default), default=0
            ),
        }

    def _all_devices(self) -> tuple[ObservedDevice, ...]:
        """Return the devices of each pool's newest generation."""
        if self._devices is None:
            newest: dict[str, int] = {}
            for one in self._slices.values():
                newest[one.pool] = max(one.generation, newest.get(one.pool, 0))
            self._devices = tuple(
                device
                for _, one in sorted(self._slices.items())
                if one.generation == newest[one.pool]
                for device in one.devices
            )
        return self._devices

    def _replace(
        self,
        kind: MirroredKind,
        key: ObjectKey,
        before: Observed | None,
        after: Observed | None,
    ) -> None:
        if before == after:
            if isinstance(after, ObservedJob):
                self.jobs[key] = after  # what is written of its status may differ
            return
        if before is not None:
            self._remove(key, before)
        if after is not None:
            self._add(key, after)
        self._tell(Change(kind, key, before, after))

    def _add(self, key: ObjectKey, observed: Observed) -> None:
        match observed:
            case ObservedJob():
                self.jobs[key] = observed
            case ObservedGroup():
                self.groups[key] = observed
                for job in members_of(observed):
                    self._groups_of[job].add(key)
            case ObservedPod():
                self.pods[key] = observed
                self._pods_of[job_of(observed)].add(key)
                if observed.slot:
                    self._pods_on[observed.slot].add(key)
            case ObservedReservation():
                self.reservations[key] = observed
                self._bound_of[group_of(observed)].add(key)
            case ObservedClaim():
                self.claims[key] = observed
                if observed.group:
                    self._bound_of[group_of(observed)].add(key)
            case ObservedNode():
                self.nodes[key.name] = observed
            case Slice():
                self._slices[key] = observed
                self._devices = None
            case Priority():
                self._priorities[key.name] = observed
            case VolumeClaim():
                self.volume_claims[key] = observed
            case ObservedService():
                self.services[key] = observed

    def _remove(self, key: ObjectKey, observed: Observed) -> None:
        match observed:
            case ObservedJob():
                del self.jobs[key]
            case ObservedGroup():
                del self.groups[key]
                for job in members_of(observed):
                    _discard(self._groups_of, job, key)
            case ObservedPod():
                del self.pods[key]
                _discard(self._pods_of, job_of(observed), key)
                if observed.slot:
                    _discard(self._pods_on, observed.slot, key)
            case ObservedReservation():
                del self.reservations[key]
                _discard(self._bound_of, group_of(observed), key)
            case ObservedClaim():
                del self.claims[key]
                _discard(self._bound_of, group_of(observed), key)
            case ObservedNode():
                del self.nodes[key.name]
            case Slice():
                del self._slices[key]
                self._devices = None
            case Priority():
                del self._priorities[key.name]
            case VolumeClaim():
                del self.volume_claims[key]
            case ObservedService():
                del self.services[key]


def job_of(pod: ObservedPod) -> ObjectKey:
    """Return the key of the pod's job."""
    return ObjectKey(pod.key.namespace, pod.job)


def group_of(bound: ObservedClaim | ObservedReservation) -> ObjectKey:
    """Return the key of the group for which a claim or a reservation was made."""
    return ObjectKey(bound.key.namespace, bound.group)


def members_of(group: ObservedGroup) -> tuple[ObjectKey, ...]:
    """Return the keys of the group's jobs."""
    return tuple(ObjectKey(member.namespace, member.job) for member in group.spec.members)


def _of(known: Mapping[ObjectKey, _Value], keys: Iterable[ObjectKey]) -> dict[ObjectKey, _Value]:
    return {key: known[key] for key in keys if key in known}


def _discard(index: dict[_At, set[ObjectKey]], at: _At, key: ObjectKey) -> None:
    keys = index.get(at)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[at]
