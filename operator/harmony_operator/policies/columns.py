"""What `kubectl get` prints about a job: made from its status, for people only."""

from harmony_api.job_status import Columns, HarmonyJobStatus
from harmony_operator.policies.standing import Standing


def columns_of(standing: Standing, status: HarmonyJobStatus) -> Columns:
    """Return the columns; None where there is nothing to print yet."""
    workers = status.replicas.workers
    desired = "?" if standing.spec is None else standing.spec.workers.least
    sharing, profile = (
        status.sharing,
        max(status.profiles, key=lambda one: one.iterations, default=None),
    )
    percent = sharing and sharing.slowdown_percent
    return Columns(
        workers=f"{workers.ready + workers.succeeded}/{desired}",
        progress=_progress(status),
        slowdown=None if percent is None else f"{percent}%",
        compute=None if profile is None else _milliseconds(profile.compute_seconds),
        network=None if profile is None else _milliseconds(profile.network_seconds),
        spill=None
        if not sharing or sharing.spilled_bytes is None
        else _size(sharing.spilled_bytes),
    )


def _progress(status: HarmonyJobStatus) -> str | None:
    if status.progress is None:
        return None
    total = status.progress.total
    return f"{status.progress.iteration}" + ("" if total is None else f"/{total}")


def _milliseconds(seconds: float) -> str:
    value = 1000 * seconds
    return f"{value:.0f}ms" if value >= 10 else f"{value:.2g}ms"


def _size(count: int) -> str:
    """Return bytes as Kubernetes writes them: `1.5Gi`."""
    value = float(count)
    for unit in ("", "Ki", "Mi"):
        if value < 1024:
            return f"{value:.3g}{unit}"
        value /= 1024
    return f"{value:.3g}Gi"
