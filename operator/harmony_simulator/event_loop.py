"""The event loop: it advances time from event to event, and asks the policy at each.

An event is an arrival, a finish or a time that the policy asked for; nothing happens between
events, and there is no scheduling round. Everything is deterministic: events that coincide are
handled in the order of the policy's list. The rules are those of the published simulator of
Muri (SIGCOMM 2022), so that its figures can be compared; what an interval costs a job is its
Execution's to say. A finish is predicted without the start-up of its interval, so the interval
that ends in a job's own finish costs it nothing.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harmony_simulator.policy import Decision, JobState, Policy, Simultaneity
from harmony_simulator.results import JobOutcome, Result, Sample
from harmony_simulator.trace import Cluster, Trace, TraceJob

_NEVER: Final = math.inf


@dataclass
class _Finish:
    at_seconds: float
    jobs: list[JobState]


def simulate(
    trace: Trace,
    policy: Policy,
    cluster: Cluster,
    on_finish: Callable[[int], None] = lambda _: None,
) -> Result:
    """Run a trace to its end; `on_finish` is told how many jobs have finished.

    Jobs that can never run are in the result with the reason, and hold up no other.
    """
    coming = list(reversed(trace.jobs))
    active: list[JobState] = []
    finish = _Finish(_NEVER, [])
    wake_seconds: float | None = None
    outcomes: dict[str, JobOutcome] = {}
    samples: list[Sample] = []
    while True:
        arrival_seconds = coming[-1].submit_seconds if coming else _NEVER
        now_seconds = min(arrival_seconds, finish.at_seconds)
        if wake_seconds is not None and wake_seconds < now_seconds:
            now_seconds = wake_seconds
        elif now_seconds == _NEVER:
            break
        else:
            together = _is_one_event(policy.simultaneity, arrival_seconds, finish.at_seconds)
            if together:
                now_seconds = arrival_seconds
            if together or now_seconds == finish.at_seconds:
                for state in finish.jobs:
                    outcomes[state.job.id] = _outcome(state, now_seconds)
                active = [state for state in active if state.job.id not in outcomes]
                on_finish(len(outcomes))
            while coming and coming[-1].submit_seconds == now_seconds:
                job = coming.pop()
                active.append(JobState(job, job.iterations, now_seconds))
        for state in active:
            _advance(state, now_seconds)
        decision = policy.decide(now_seconds, active, cluster)
        active = list(decision.order)
        for state in active:
            state.execution = decision.executions.get(state.job.id)
            if state.execution is not None and state.first_start_seconds is None:
                state.first_start_seconds = now_seconds
        finish = _first_finish(now_seconds, active, policy.simultaneity.finishes_relative)
        wake_seconds = decision.wake_seconds
        samples.append(_sample(now_seconds, active, decision, cluster))
    for state in active:
        outcomes[state.job.id] = _outcome(state, None, _why_never(state.job, cluster))
    in_order = tuple(outcomes[job.id] for job in trace.jobs)
    return Result(policy.name, in_order, tuple(samples))


def _is_one_event(rule: Simultaneity, arrival_seconds: float, finish_seconds: float) -> bool:
    if _NEVER in (arrival_seconds, finish_seconds):
        return False
    apart = abs(arrival_seconds - finish_seconds)
    near = max(rule.arrival_seconds, rule.arrival_relative * arrival_seconds)
    return apart <= near


def _advance(state: JobState, now_seconds: float) -> None:
    """Count the progress of the interval that ends now."""
    execution = state.execution
    if execution is not None:
        elapsed_seconds = now_seconds - state.accounted_seconds
        useful_seconds = max(elapsed_seconds - execution.startup_seconds, 0.0)
        state.remaining_iterations -= useful_seconds / execution.iteration_seconds
        # In this order: with the difference added, a limit on it might never quite be reached.
        state.executed_seconds = state.executed_seconds + now_seconds - state.accounted_seconds
    state.accounted_seconds = now_seconds


def _first_finish(now_seconds: float, active: Sequence[JobState], relative: float) -> _Finish:
    """Return the earliest finish; one that is near an earlier-listed one joins it."""
    finishes: list[_Finish] = []
    for state in active:
        if state.execution is None:
            continue
        at_seconds = now_seconds + state.remaining_iterations * state.execution.iteration_seconds
        for other in finishes:
            if abs(at_seconds - other.at_seconds) <= relative * other.at_seconds:
                other.jobs.append(state)
                break
        else:
            finishes.append(_Finish(at_seconds, [state]))
    return min(finishes, key=lambda finish: finish.at_seconds, default=_Finish(_NEVER, []))


def _sample(
    now_seconds: float, active: Sequence[JobState], decision: Decision, cluster: Cluster
) -> Sample:
    compute = network = 0.0
    for state in active:
        if state.execution is not None:
            iterations_per_second = state.job.gpus / state.execution.iteration_seconds
            compute += state.job.stages.compute_seconds * iterations_per_second
            network += state.job.stages.network_seconds * iterations_per_second
    return Sample(
        at_seconds=now_seconds,
        running_gpus=decision.used_gpus,
        compute_utilisation=compute / cluster.gpus,
        network_utilisation=network / cluster.gpus,
        waiting_jobs=sum(state.execution is None for state in active),
    )


def _outcome(
    state: JobState, finish_seconds: float | None, reason: str | None = None
) -> JobOutcome:
    return JobOutcome(
        id=state.job.id,
        gpus=state.job.gpus,
        submit_seconds=state.job.submit_seconds,
        first_start_seconds=state.first_start_seconds,
        finish_seconds=finish_seconds,
        reason=reason,
    )


def _why_never(job: TraceJob, cluster: Cluster) -> str:
    if job.gpus > cluster.gpus:
        return f"asks for {job.gpus} GPUs, and the whole cluster has {cluster.gpus}"
    return "was passed over until nothing else happened"
