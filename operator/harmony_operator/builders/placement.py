"""The node to which the plan sends a pod, said so that the scheduler still decides.

A required affinity, not `nodeName`: resources, taints and claims are still the scheduler's
business, and it still counts what the pod takes.
"""

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def tolerate_devices(resource: str) -> dict[str, Any]:
    """Return a toleration of the taint that keeps a node for pods that use its devices."""
    return {"key": resource, "operator": "Exists"}


def tolerations_of(raw_spec: Mapping[str, Any]) -> Sequence[dict[str, Any]]:
    """Return the tolerations that a job's workers have by their template."""
    found: Any = raw_spec
    for name in ("workers", "template", "spec", "tolerations"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, list) else []


def on_node(affinity: Mapping[str, Any] | None, node: str) -> dict[str, Any]:
    """Return the affinity with the node required as well; terms are alternatives, so in each."""
    merged: dict[str, Any] = copy.deepcopy(dict(affinity or {}))
    node_affinity = merged["nodeAffinity"] = dict(merged.get("nodeAffinity") or {})
    required: dict[str, Any] = dict(node_affinity.get(_REQUIRED) or {})
    # An empty term matches no node, and must not begin to.
    given = [term for term in required.get("nodeSelectorTerms") or () if term]
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    required["nodeSelectorTerms"] = [
        {**term, "matchFields": [*(term.get("matchFields") or ()), here]} for term in given or [{}]
    ]
    node_affinity[_REQUIRED] = required
    return merged
