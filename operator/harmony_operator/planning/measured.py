"""How fast the groups really are, from what the sidecars answered.

What is found goes where it survives: pairs to keep apart into their jobs' status, corrections
into their groups'.
"""

from collections.abc import Mapping

from harmony_operator.builders.names import member_name
from harmony_operator.observed import ClusterState, LiveWorker, ObservedJob
from harmony_operator.planning.groups import key_of
from harmony_operator.planning.memory import PlanningMemory
from harmony_planner.group_speed import Count


def counts(state: ClusterState) -> dict[str, Count]:
    """Return where each job stands of which every worker has answered."""
    found = {}
    for key, live in state.live.items():
        job = state.jobs.get(key)
        if job is not None and (count := _count(job, live)) is not None:
            found[member_name(*key)] = count
    return found


def learn(state: ClusterState, memory: PlanningMemory, now: Mapping[str, Count]) -> str | None:
    """Correct the groups that can be measured; say which pairs are to be kept apart by now."""
    news = []
    for pair in memory.speeds.learn(now):
        keys = sorted(map(key_of, pair))
        if not all(key in state.jobs for key in keys):
            continue
        for key, other in (keys, reversed(keys)):
            uid, its = state.jobs[key].uid, state.jobs[other].uid
            known = memory.separated.get(uid, frozenset())
            memory.separated = {**memory.separated, uid: known | {its}}
        news.append(" and ".join(sorted(pair)))
    return f"{', '.join(news)} are slower together than in turn" if news else None


def separated(state: ClusterState, memory: PlanningMemory) -> dict[str, frozenset[str]]:
    """Return the uids of the jobs that exist from which each is kept apart; forget the others."""
    uids = frozenset(job.uid for job in state.jobs.values())
    memory.separated = {uid: apart & uids for uid, apart in memory.separated.items() if uid in uids}
    return {
        job.uid: uids & {*job.status.separated_from, *memory.separated.get(job.uid, ())}
        for job in state.jobs.values()
        if job.status.separated_from or job.uid in memory.separated
    }


def resume(state: ClusterState, memory: PlanningMemory) -> None:
    """Take over from the groups' status what an earlier operator has measured."""
    for key, group in state.groups.items():
        percent = group.status.correction_percent
        if percent:
            members = (member_name(one.namespace, one.job) for one in group.spec.members)
            memory.speeds.resume(member_name(*key), frozenset(members), percent / 100)


def _count(job: ObservedJob, live: Mapping[int, LiveWorker]) -> Count | None:
    if job.job is None or len(live) < job.job.spec.workers.least:
        return None
    if any(worker.done for worker in live.values()):
        return None  # it is on its way out, not slow
    behind = min(live.values(), key=lambda worker: worker.iteration)
    incarnation = frozenset(worker.pod_uid for worker in live.values())
    return Count(behind.iteration, incarnation, behind.asked_seconds)
