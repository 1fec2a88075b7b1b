"""Where a job stands: what the policies found out, each once, for steps and status alike."""

from dataclasses import dataclass, replace

from harmony_api.job import HarmonyJobSpec
from harmony_operator.observed import ObservedPod
from harmony_operator.policies.bad_input import Fault, fault_of
from harmony_operator.policies.deadline import overrun
from harmony_operator.policies.ending import Ending, is_finished
from harmony_operator.policies.failure import Counted, next_failure
from harmony_operator.policies.roster import Roster, roster_of
from harmony_operator.policies.starting_over import starts_over
from harmony_operator.policies.stopping import must_stop
from harmony_operator.policies.success import succeeded_workers, success
from harmony_operator.view import JobView


@dataclass(frozen=True, kw_only=True)
class Standing:
    """What is found about one job."""

    view: JobView
    roster: Roster
    spec: HarmonyJobSpec | None
    """None where it cannot be read."""
    fault: Fault | None = None
    succeeded: frozenset[int] = frozenset()
    """Workers that are done."""
    starting_over: bool = False
    """All its pods must go."""
    stopping: bool = False
    """Its workers stop, because they are in the wrong place or it may not run."""
    finished: bool = False
    """It is over, by what its status says."""
    ending: Ending | None = None
    """It is over, which its status does not say yet."""
    counted: Counted | None = None
    """A failure that its status does not count yet."""

    @property
    def may_run(self) -> bool:
        """Whether it has slots and nothing forbids that it uses them."""
        return (
            self.view.group is not None
            and self.fault is None
            and self.spec is not None
            and not self.spec.suspend
            and not (self.finished or self.ending)
        )

    @property
    def workers(self) -> tuple[ObservedPod, ...]:
        """The pods of the workers that are not done, by index."""
        pods = self.roster.workers
        return tuple(pods[index] for index in sorted(pods) if index not in self.succeeded)

    @property
    def unfinished(self) -> int:
        """How many workers are not done, be they there or not; 0 where the spec does not say."""
        return 0 if self.spec is None else self.spec.workers.least - len(self.succeeded)

    @property
    def busy_workers(self) -> tuple[ObservedPod, ...]:
        """Those of them whose program has not ended."""
        return tuple(pod for pod in self.workers if not pod.finished)

    @property
    def servers(self) -> tuple[ObservedPod, ...]:
        """The pods of the servers, by index."""
        return tuple(self.roster.servers[index] for index in sorted(self.roster.servers))

    @property
    def failures_that_count(self) -> tuple[ObservedPod, ...]:
        """Pods whose failure may count: when all goes, a worker's failure only follows from it."""
        return self.servers if self.starting_over else (*self.servers, *self.workers)


def standing_of(view: JobView) -> Standing:
    """Find out where the job stands."""
    status, roster = view.job.status, roster_of(view)
    spec = view.job.job.spec if view.job.job else None
    standing = Standing(view=view, roster=roster, spec=spec, finished=is_finished(status))
    succeeded = succeeded_workers(roster, status)
    if standing.finished:
        return replace(standing, succeeded=succeeded)
    fault = fault_of(view)
    if fault is not None or spec is None:
        return replace(standing, fault=fault, succeeded=succeeded, stopping=True)
    goal = success(spec, succeeded)
    if goal is not None:
        return replace(standing, succeeded=succeeded, ending=goal)
    anew = starts_over(spec, view, roster, succeeded)
    standing = replace(standing, succeeded=frozenset() if anew else succeeded, starting_over=anew)
    standing = replace(standing, stopping=not standing.may_run or must_stop(standing.workers, view))
    failure = next_failure(standing.failures_that_count, status, spec.failure_policy)
    if isinstance(failure, Counted):
        standing = replace(standing, counted=failure)
        failure = None
    return replace(standing, ending=failure or overrun(spec, status, view.now_seconds))
