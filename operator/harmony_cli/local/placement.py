"""From a plan to what each worker's sidecar is told.

The modes differ here and nowhere else: shared asks the planner, naive puts everybody together
without permits, dedicated lets one job run at a time. What follows from a decision (processes,
node plans) is the same for all three.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.profile import JobProfile
from harmony_cli.local.slots import LocalSlot
from harmony_cli.run_record import GroupRecord, MemberRecord, Mode, PlanRecord, PredictionRecord
from harmony_planner.planner import plan
from harmony_planner.snapshot import Group, Job, Member, Network, Plan, Snapshot, Waiting

Permits = Literal["Cyclic", "FixedAlternation", "None"]


@dataclass(frozen=True)
class Seat:
    """Where one job's workers run, and the node plan of each, by worker index."""

    group: str
    slots: tuple[LocalSlot, ...]
    node_plans: tuple[NodePlan, ...]


def decide(mode: Mode, snapshot: Snapshot) -> Plan:
    """Decide who runs where."""
    if mode == "shared":
        return plan(snapshot)
    together = sorted(snapshot.jobs, key=lambda job: (job.submitted, job.name))
    if mode == "dedicated":
        together, later = together[:1], together[1:]
    else:
        later = []
    too_wide = [job for job in together if job.workers > len(snapshot.slots)]
    members = tuple(
        _unplanned_member(job, order, snapshot)
        for order, job in enumerate(job for job in together if job not in too_wide)
    )
    slots = tuple(slot.name for slot in snapshot.slots)
    return Plan(
        groups=(Group(name=mode, slots=slots, members=members, prediction=None),)
        if members
        else (),
        waiting=(
            *(Waiting(job=job.name, reason="waits for the jobs before it") for job in later),
            *(
                Waiting(
                    job=job.name,
                    reason=f"needs {job.workers} slots, there are {len(slots)}: see --slots",
                )
                for job in too_wide
            ),
        ),
    )


def _unplanned_member(job: Job, order: int, snapshot: Snapshot) -> Member:
    return Member(
        job=job.name,
        order=order,
        rounds=1,
        slots=tuple(slot.name for slot in snapshot.slots[: job.workers]),
        memory_bytes=None,
        reason="not planned: every job runs as soon as the mode lets it",
    )


def seats(
    decision: Plan,
    slots: Sequence[LocalSlot],
    profiles: Mapping[str, JobProfile],
    *,
    generation: int,
    permits: Permits,
    network: Network,
) -> dict[str, Seat]:
    """Return the seat of every job that the plan lets run, by name."""
    by_name = {slot.name: slot for slot in slots}
    found: dict[str, Seat] = {}
    for group in decision.groups:
        planned = _planned_members(group, profiles)
        for member in group.members:
            node_plans = tuple(
                NodePlan(
                    group=group.name,
                    generation=generation,
                    devices=(slot,),
                    members=planned,
                    device_memory_bytes=member.memory_bytes,
                    network=network,
                    permits=permits,
                )
                for slot in member.slots
            )
            local_slots = tuple(by_name[name] for name in member.slots)
            found[member.job] = Seat(group.name, local_slots, node_plans)
    return found


def _planned_members(group: Group, profiles: Mapping[str, JobProfile]) -> tuple[PlannedMember, ...]:
    """Return every worker of the group: all of its sidecars are told the same."""
    planned = []
    for member in group.members:
        profile = profiles.get(member.job)
        planned += [
            PlannedMember(
                job=member.job,
                worker=worker,
                order=member.order,
                rounds=member.rounds,
                compute_seconds=profile.compute_seconds if profile else 0.0,
                network_seconds=max(profile.pull_microseconds, profile.push_microseconds) / 1e6
                if profile
                else 0.0,
            )
            for worker in range(len(member.slots))
        ]
    return tuple(planned)


def record_plan(
    decision: Plan, *, generation: int, at_ns: int, why: str, measured: frozenset[str]
) -> PlanRecord:
    """Return the decision in the form of run.json; `measured` jobs have a measured profile."""
    groups = []
    for group in decision.groups:
        prediction = group.prediction
        groups.append(
            GroupRecord(
                name=group.name,
                slots=list(group.slots),
                members=[
                    MemberRecord(
                        job=member.job,
                        order=member.order,
                        rounds=member.rounds,
                        reason=member.reason,
                    )
                    for member in group.members
                ],
                prediction=None
                if prediction is None
                else PredictionRecord(
                    cycle_seconds=prediction.cycle_seconds,
                    serial_seconds=prediction.serial_seconds,
                    compute_utilisation=prediction.compute_utilisation,
                    network_utilisation=prediction.network_utilisation,
                    slowdown_percent=dict(prediction.slowdown_percent),
                ),
                measured=all(member.job in measured for member in group.members),
            )
        )
    waiting = {waiting.job: waiting.reason for waiting in decision.waiting}
    return PlanRecord(generation=generation, at_ns=at_ns, why=why, groups=groups, waiting=waiting)
