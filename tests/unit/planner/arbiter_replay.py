"""The arbiter's own permit table, driven through the phases of some jobs in simulated time.

The planner's schedule claims to follow the arbiter's rules; this is what it is held to. A
secondary transfer makes no progress while there is a primary, since that one fills the link.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harmony_api.node_plan import NodePlan, PlannedMember
from harmony_api.worker_protocol import Epoch, Phase
from harmony_planner.schedule import Iteration
from harmony_planner.snapshot import Network
from harmony_sidecar.cyclic_order import Member
from harmony_sidecar.decisions import Decision, Granted, LiveTurn
from harmony_sidecar.permits import PermitTable


@dataclass
class _Worker:
    name: Member
    nanoseconds: dict[Phase, int]
    phase: Phase = Phase.PULL
    live: LiveTurn | None = None
    remaining: int = 0
    ends: list[int] = field(default_factory=list)

    def moves(self, table: PermitTable) -> bool:
        """Whether the phase makes progress: a secondary transfer does while no primary is out."""
        if self.phase is Phase.SYNC:
            return True
        if self.live is None or self.phase is Phase.COMP:
            return self.live is not None
        primary = table.primaries()[self.phase is Phase.PUSH]
        return primary in (None, self.live.turn)


def replay(
    members: Sequence[Iteration], network: Network, *, iterations: int, warm_up: int
) -> list[float]:
    """Return each member's mean seconds per iteration after a warm-up.

    One worker each on one slot; updates take no part of the link.
    """
    table = PermitTable(Epoch(1))
    workers = [_worker(index, member) for index, member in enumerate(members)]
    by_name = {worker.name: worker for worker in workers}
    plan = _node_plan(members, network)
    now = started = 0

    def apply(decisions: Iterable[Decision]) -> None:
        for decision in decisions:
            if isinstance(decision, Granted):
                by_name[decision.live.member].live = decision.live

    def enter(worker: _Worker, phase: Phase) -> None:
        worker.phase, worker.remaining = phase, worker.nanoseconds[phase]
        if phase is not Phase.SYNC:
            apply(table.request(worker.name, 0, phase, now))

    for worker in workers:
        apply(table.join(worker.name, plan, chunked=True, held=None, now_ns=0))
    for worker in workers:
        enter(worker, Phase.PULL)
    while (fewest := min(len(worker.ends) for worker in workers)) < iterations:
        if fewest < warm_up:
            started = now
        moving = [worker for worker in workers if worker.moves(table)]
        elapsed = min(worker.remaining for worker in moving)
        now += elapsed
        for worker in moving:
            worker.remaining -= elapsed
        for worker in [worker for worker in moving if worker.remaining == 0]:
            if worker.live is not None:
                live, worker.live = worker.live, None
                apply(table.release(worker.name, live.turn, now))
            if worker.phase is Phase.SYNC:
                worker.ends.append(now)
            enter(worker, _NEXT[worker.phase])
    return [_mean_seconds([end for end in worker.ends if end >= started]) for worker in workers]


_NEXT = {
    Phase.PULL: Phase.COMP,
    Phase.COMP: Phase.PUSH,
    Phase.PUSH: Phase.SYNC,
    Phase.SYNC: Phase.PULL,
}


def _worker(index: int, member: Iteration) -> _Worker:
    seconds = {
        Phase.PULL: member.pull_seconds,
        Phase.COMP: member.compute_seconds,
        Phase.PUSH: member.push_seconds,
        Phase.SYNC: member.update_seconds,
    }
    nanoseconds = {phase: round(each * 1e9) for phase, each in seconds.items()}
    return _Worker(Member(f"j{index}/0"), nanoseconds)


def _node_plan(members: Sequence[Iteration], network: Network) -> NodePlan:
    planned = tuple(
        PlannedMember(
            job=f"j{index}",
            worker=0,
            order=index,
            rounds=member.rounds,
            compute_seconds=member.compute_seconds,
            network_seconds=max(member.pull_seconds, member.push_seconds, 1e-9),
        )
        for index, member in enumerate(members)
    )
    return NodePlan(group="g", generation=1, devices=("slot-0",), network=network, members=planned)


def _mean_seconds(ends: Sequence[int]) -> float:
    return (ends[-1] - ends[0]) / (len(ends) - 1) / 1e9
