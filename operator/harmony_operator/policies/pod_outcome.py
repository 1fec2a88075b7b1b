"""How a pod ended, from its main container alone.

A sidecar's exit code never counts: it may be killed after the worker is done. A pod that is
being deleted decides nothing, because whoever deletes it ends it, whatever code it ends with.
"""

from typing import Final, Literal

from harmony_operator.observed import ObservedPod

Outcome = Literal["Succeeded", "Stopped", "Failed", "Lost"]
"""Stopped: it left at an iteration boundary, which is neither success nor failure. Lost: its
node, its eviction or its refusal ended it, not the program."""

EXIT_STOPPED: Final = 75
"""A program ends with this after it was told to stop."""

_STATUS_LOST: Final = frozenset({"ContainerStatusUnknown", "Unknown"})
"""Reasons of a container whose end nobody saw, as after a node's restart."""


def outcome(pod: ObservedPod) -> Outcome | None:
    """Return how the pod ended; None while it may still run, and once it is being deleted."""
    if pod.deleting_since_seconds is not None or not pod.finished:
        return None
    end = pod.termination
    if end is None:
        return "Succeeded" if pod.phase == "Succeeded" else "Lost"
    if end.exit_code == 0:
        return "Succeeded"
    if has_stopped(pod):
        return "Stopped"
    return "Lost" if pod.disrupted or end.reason in _STATUS_LOST else "Failed"


def has_stopped(pod: ObservedPod) -> bool:
    """Whether it left at an iteration boundary; it may be on its way out by now."""
    return pod.termination is not None and pod.termination.exit_code == EXIT_STOPPED


def is_live(pod: ObservedPod) -> bool:
    """Whether its program runs or is going to."""
    return pod.deleting_since_seconds is None and not pod.finished


def is_leaving(pod: ObservedPod) -> bool:
    """Whether it is being deleted, and still there."""
    return pod.deleting_since_seconds is not None


def name_of(pod: ObservedPod) -> str:
    """Return what people call it: `worker 0`."""
    return f"{pod.role} {pod.index}"


def in_words(pod: ObservedPod) -> str:
    """Say how a pod failed or was lost, with what the kubelet tells about it."""
    end = pod.termination
    if end is None:
        how = ": ".join(filter(None, (pod.reason, pod.message))) or "it ended before it started"
        return f"{name_of(pod)} was lost ({how})"
    details = [f"exit code {end.exit_code}"]
    if end.reason not in ("", "Error"):
        details.append(end.reason)
    if end.message:
        details.append(end.message.strip()[-_LONGEST_DETAIL:])
    if pod.reason:
        details.append(": ".join(filter(None, (pod.reason, pod.message))))
    verb = "was lost" if outcome(pod) == "Lost" else "failed"
    return f"{name_of(pod)} {verb} ({', '.join(details)})"


_LONGEST_DETAIL: Final = 300
"""Characters of a program's last words that a message takes."""
