"""When what is left of a job is useless, so that all its pods are made anew.

Harmony's own servers and workers agree again by themselves when a server is replaced: they go
back to the last snapshot, or to the beginning. Servers of other programs do not, and workers
that are done cannot take part in a repetition; then servers and workers all go, the servers
first, so that whoever looks next still sees why.
"""

from harmony_api.job import SERVER_CONTAINER, HarmonyJobSpec
from harmony_operator.policies.pod_outcome import is_leaving, outcome
from harmony_operator.policies.roster import Roster
from harmony_operator.view import JobView

_OWN_SERVER = "harmony_worker.parameter_server"


def starts_over(
    spec: HarmonyJobSpec, view: JobView, roster: Roster, succeeded: frozenset[int]
) -> bool:
    """Whether a loss is beyond repair and all pods of the job must go."""
    servers = range(spec.parameter_servers.replicas)
    if any(_is_lost(roster, index) for index in servers):
        return bool(succeeded) or (not _repair_themselves(spec) and _has_begun(spec, view, roster))
    done = any(outcome(roster.servers[index]) == "Succeeded" for index in servers)
    return done and any(
        index not in succeeded and _must_be_made(roster, index)
        for index in range(spec.workers.least)
    )


def _is_lost(roster: Roster, index: int) -> bool:
    pod = roster.servers.get(index)
    return pod is None or is_leaving(pod) or outcome(pod) not in (None, "Succeeded")


def _must_be_made(roster: Roster, index: int) -> bool:
    pod = roster.workers.get(index)
    return pod is None or is_leaving(pod) or pod.finished


def _has_begun(spec: HarmonyJobSpec, view: JobView, roster: Roster) -> bool:
    """Whether the servers that are left may hold parameters that were trained."""
    all_served = view.job.status.replicas.servers.ready >= spec.parameter_servers.replicas
    return (all_served and bool(roster.servers)) or any(
        pod.started_seconds is not None and not is_leaving(pod) for pod in roster.workers.values()
    )


def _repair_themselves(spec: HarmonyJobSpec) -> bool:
    """Whether the servers are Harmony's own program."""
    template = spec.parameter_servers.template
    if template is None:
        return True
    server = template.container(SERVER_CONTAINER)
    return any(_OWN_SERVER in word for word in (*server.command, *server.args))
