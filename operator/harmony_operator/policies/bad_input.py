"""What a user must correct before anything is created: found once for each change of the spec.

What the schema cannot say is said here, with the field and what to write instead. Templates
are checked only once per generation, since a valid one stays valid.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harmony_api.conditions import ConditionType, ValidReason
from harmony_api.job import SERVER_CONTAINER, WORKER_CONTAINER, HarmonyJobSpec
from harmony_operator.observed import ApiProblem
from harmony_operator.policies.conditions import condition
from harmony_operator.template_check import template_errors, volume_claim_errors
from harmony_operator.view import JobView

_TEMPLATES = ("spec.workers.template", "spec.parameterServers.template")


@dataclass(frozen=True)
class Fault:
    """Why a job cannot be carried out as it is."""

    reason: ValidReason
    message: str
    by_api_server: bool = False
    """Whether it was the API server that found it, which is asked again now and then."""


def fault_of(view: JobView) -> Fault | None:
    """Return what is to be corrected; None where the job can be carried out."""
    job = view.job
    if job.job is None:
        errors = job.errors or ("spec: it cannot be read",)
        in_template = all(error.startswith(_TEMPLATES) for error in errors)
        reason = ValidReason.INVALID_TEMPLATE if in_template else ValidReason.INVALID_SPEC
        return _fault(reason, errors)
    spec = job.job.spec
    if errors := (*_spec_errors(spec), *volume_claim_errors(job)):
        return _fault(ValidReason.INVALID_SPEC, errors)
    known = condition(job.status.conditions, ConditionType.VALID)
    checked = (
        known is not None
        and known.observed_generation == job.generation
        and known.reason not in (ValidReason.INVALID_SPEC, ValidReason.INVALID_TEMPLATE)
    )
    if not checked and (errors := template_errors(job)):
        return _fault(ValidReason.INVALID_TEMPLATE, errors)
    return _checkpoint_fault(spec, view) or _priority_fault(spec, view) or _refusal(view.problem)


def is_known_valid(view: JobView) -> bool:
    """Whether the job as it is now was found valid before."""
    known = condition(view.job.status.conditions, ConditionType.VALID)
    return (
        known is not None
        and known.status == "True"
        and known.observed_generation == view.job.generation
    )


def _refusal(problem: ApiProblem | None) -> Fault | None:
    """A quota is no fault of the job's: it may be lifted, and is told when it matters."""
    if problem is None or not problem.rehearsed or problem.status not in (400, 403, 422):
        return None
    if "exceeded quota" in problem.message:
        return None
    words = f"{problem.what}: {problem.message}"
    return Fault(ValidReason.INVALID_TEMPLATE, words, by_api_server=True)


def _spec_errors(spec: HarmonyJobSpec) -> Iterator[str]:
    containers = (WORKER_CONTAINER, SERVER_CONTAINER)
    for number, rule in enumerate(spec.failure_policy.rules):
        name = rule.on_exit_codes and rule.on_exit_codes.container_name
        if name and name not in containers:
            yield (
                f"spec.failurePolicy.rules[{number}].onExitCodes.containerName: {name!r} is not "
                f"looked at; use {' or '.join(map(repr, containers))}, or leave it out for both"
            )


def _checkpoint_fault(spec: HarmonyJobSpec, view: JobView) -> Fault | None:
    """A claim that is removed later is nothing to a job that has begun: the scheduler tells."""
    servers = spec.parameter_servers.replicas
    modes = view.claim_access_modes
    name = spec.checkpoint and spec.checkpoint.volume_claim_name
    if name and modes is None and view.job.status.start_time is None:
        return Fault(
            ValidReason.VOLUME_CLAIM_NOT_FOUND,
            f"spec.checkpoint.volumeClaimName: there is no PersistentVolumeClaim {name!r} in the "
            "namespace; create it, or let each server have its own by volumeClaimTemplate",
        )
    if servers == 1 or modes is None or "ReadWriteMany" in modes:
        return None
    return Fault(
        ValidReason.UNSUPPORTED_CHECKPOINT,
        f"spec.checkpoint.volumeClaimName: {servers} servers on several nodes cannot all write to "
        f"{name!r}, which is {', '.join(sorted(modes)) or 'without an access mode'}; use a "
        "ReadWriteMany claim, a volumeClaimTemplate, or one server",
    )


def _priority_fault(spec: HarmonyJobSpec, view: JobView) -> Fault | None:
    """A class that is removed later is nothing to a job that has begun."""
    if view.priority_class_exists or view.job.status.start_time is not None:
        return None
    return Fault(
        ValidReason.PRIORITY_CLASS_NOT_FOUND,
        f"spec.priorityClassName: there is no PriorityClass {spec.priority_class_name!r}; "
        "create it, or name one of `kubectl get priorityclasses`",
    )


def _fault(reason: ValidReason, errors: tuple[str, ...]) -> Fault:
    return Fault(reason, "; ".join(errors))
