"""Tables of permits for tests, with time as a number."""

from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.worker_protocol import Epoch, Phase
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import Decision, Granted, LiveTurn
from harmony_sidecar.permits import PermitTable

SECOND = 1_000_000_000
A, B, C, D = (Member(f"{job}/0") for job in "abcd")


def plan(
    order: str = "abcd",
    *,
    group: str = "g",
    generation: int = 1,
    devices: tuple[str, ...] = ("gpu0",),
    rounds: dict[str, int] | None = None,
    network: str = "HalfDuplex",
    permits: str = "Cyclic",
    compute_seconds: float = 0.01,
    network_seconds: float = 0.01,
) -> NodePlan:
    return NodePlan(
        group=group,
        generation=generation,
        devices=devices,
        network=network,
        permits=permits,
        members=tuple(
            PlannedMember(
                job=job,
                worker=0,
                order=index,
                rounds=(rounds or {}).get(job, 1),
                compute_seconds=compute_seconds,
                network_seconds=network_seconds,
            )
            for index, job in enumerate(order)
        ),
    )


def table_with(
    *members: Member, the_plan: NodePlan | None = None, chunked: bool = True
) -> PermitTable:
    table = PermitTable(Epoch(1))
    for member in members:
        table.join(member, the_plan or plan(), chunked=chunked, held=None, now_ns=0)
    return table


def granted(decisions: list[Decision]) -> list[LiveTurn]:
    return [decision.live for decision in decisions if isinstance(decision, Granted)]


def ask(table: PermitTable, member: Member, phase: Phase = Phase.COMP, now: int = 0) -> list:
    return granted(table.request(member, 7, phase, now))
