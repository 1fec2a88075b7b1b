"""Muri-S and Muri-L (SIGCOMM 2022), by the rules of their published simulator.

Jobs of one width are grouped, up to four, by repeated maximum-weight matching on how well their
stages fill one another's gaps, and only as far as the candidates would not fit otherwise. The
keys order candidates and groups; they play no part in who is matched with whom. Among matchings
of equal weight the one that pairs neighbours in the list is taken: it is nearest to the
published figures, which depend on such ties by up to three percent.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import rustworkx

from harmony_simulator.charges import alone_seconds, startup_seconds
from harmony_simulator.interleaving import MOST_JOBS, cycle_seconds
from harmony_simulator.policies.single import alone, remaining_seconds
from harmony_simulator.policy import Decision, Execution, JobState, Pool, Simultaneity
from harmony_simulator.trace import Cluster

JobGroup = tuple[JobState, ...]

_RESOURCES: Final = 4
_ROUNDS: Final = 4
_WEIGHT_UNITS: Final = 10**12
_TIE_UNITS: Final = 10**6
"""A unit of weight is worth this many units of distance squared: never less than all ties."""
NEAR_EVENTS: Final = Simultaneity(
    finishes_relative=1e-9, arrival_seconds=1e-4, arrival_relative=1e-9
)


@dataclass(frozen=True)
class Muri:
    """Groups by matching; the key alone tells Muri-S from Muri-L."""

    name: str
    key: Callable[[JobState], float]
    """GPU-seconds; the least goes first."""
    simultaneity: Simultaneity = NEAR_EVENTS

    def decide(self, now_seconds: float, active: Sequence[JobState], cluster: Cluster) -> Decision:  # noqa: ARG002
        """Return groups in ascending order of their least key, as far as they fit."""
        keys = {state.job.id: self.key(state) for state in active}
        ordered = sorted(active, key=lambda state: keys[state.job.id])
        groups = _unpack(_grouped(_candidates(ordered, cluster), cluster.gpus))
        groups.sort(key=lambda group: min(keys[state.job.id] for state in group))
        pool = Pool(cluster)
        running: dict[str, Execution] = {}
        for group in groups:
            if pool.take(group[0].job.gpus):
                running |= executions(group)
        order = sorted(ordered, key=lambda state: -state.job.gpus)
        return Decision(running, pool.used, order)


def muri_s() -> Muri:
    """Shortest remaining service first, with the duration that the trace tells."""
    return Muri("Muri-S", _known_remaining_service)


def muri_l() -> Muri:
    """Least attained service first: durations play no part."""
    return Muri("Muri-L", lambda state: state.executed_seconds * state.job.gpus)


def executions(group: JobGroup) -> dict[str, Execution]:
    """Return how the members of a group run: each is charged the start-up of all."""
    if len(group) == 1:
        return {group[0].job.id: alone(group[0])}
    jobs = [state.job for state in group]
    shared = Execution(cycle_seconds(jobs), sum(map(startup_seconds, jobs)))
    return dict.fromkeys((job.id for job in jobs), shared)


def _known_remaining_service(state: JobState) -> float:
    ran = state.executed_seconds > 0
    seconds = remaining_seconds(state) if ran else state.job.known_duration_seconds
    return seconds * state.job.gpus


def _candidates(ordered: Sequence[JobState], cluster: Cluster) -> dict[int, list[JobGroup]]:
    """Return the jobs to group by their GPUs: four for each place that one alone would have."""
    of_width: dict[int, list[JobState]] = defaultdict(list)
    for state in ordered:
        of_width[state.job.gpus].append(state)
    taken: dict[int, list[JobGroup]] = {gpus: [] for gpus in of_width}
    ids: set[str] = set()
    pool = Pool(cluster)
    for state in ordered:
        gpus = state.job.gpus
        if state.job.id in ids or not pool.take(gpus):
            continue
        begin = len(taken[gpus])
        for member in of_width[gpus][begin : begin + MOST_JOBS]:
            taken[gpus].append((member,))
            ids.add(member.job.id)
    return taken


def _grouped(taken: dict[int, list[JobGroup]], free_gpus: int) -> list[JobGroup]:
    """Merge candidates, best matches first by position, until they need no more than is free."""
    required = sum(gpus * len(groups) for gpus, groups in taken.items())
    for _ in range(_ROUNDS):
        if required <= free_gpus:
            break
        for gpus, groups in taken.items():
            partner = _matching(groups)
            merged: list[JobGroup] = []
            for position, group in enumerate(groups):
                other = partner.get(position)
                if other is None:
                    merged.append(group)
                elif other < position:
                    if required > free_gpus:
                        merged.append(groups[other] + group)
                        required -= gpus
                    else:
                        merged += (groups[other], group)
            taken[gpus] = merged
    return [group for groups in taken.values() for group in groups]


def _matching(groups: Sequence[JobGroup]) -> dict[int, int]:
    """Return each matched position's partner in a matching of the most weight."""
    graph: rustworkx.PyGraph[int, int] = rustworkx.PyGraph(multigraph=False)
    graph.add_nodes_from(range(len(groups)))
    edges = []
    for later, group in enumerate(groups):
        for earlier, other in enumerate(groups[:later]):
            if len(group) + len(other) <= MOST_JOBS:
                units = round(_weight(other + group) * _WEIGHT_UNITS)
                edges.append((earlier, later, units * _TIE_UNITS - (later - earlier) ** 2))
    graph.add_edges_from(edges)
    pairs = rustworkx.max_weight_matching(graph, weight_fn=int)
    return dict(pairs) | {other: one for one, other in pairs}


def _weight(group: JobGroup) -> float:
    jobs = [state.job for state in group]
    return sum(job.stages.total_seconds for job in jobs) / (_RESOURCES * cycle_seconds(jobs))


def _unpack(groups: Sequence[JobGroup]) -> list[JobGroup]:
    """Split the groups that are slower than their members in turn."""
    kept: list[JobGroup] = []
    for group in groups:
        jobs = [state.job for state in group]
        if len(jobs) > 1 and cycle_seconds(jobs) > sum(map(alone_seconds, jobs)):
            kept += [(state,) for state in group]
        else:
            kept.append(group)
    return kept
