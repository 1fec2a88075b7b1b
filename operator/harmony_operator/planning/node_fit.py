"""On which nodes the pods of a template may run, as kube-scheduler will judge it.

A slot on another node would be held by a pod that stays Pending for ever, so the planner is told
beforehand. What only the scheduler can judge (requests, volumes, other pods) is learned from what
it does: see stuck_workers.
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from harmony_operator.observed import ObservedNode, Taint

FIELD: Final = "workers.template.spec"
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")


def demands(template: Any, more_tolerations: Sequence[Mapping[str, Any]]) -> str:
    """Return what a pod template asks of nodes, as JSON that is equal for equal demands."""
    spec = _mapping(_mapping(template).get("spec"))
    node_affinity = _mapping(_mapping(spec.get("affinity")).get("nodeAffinity"))
    asked = {
        "selector": _mapping(spec.get("nodeSelector")),
        "required": node_affinity.get("requiredDuringSchedulingIgnoredDuringExecution"),
        "tolerations": [*(spec.get("tolerations") or ()), *more_tolerations],
    }
    return json.dumps(asked, sort_keys=True)


def barred_nodes(demanded: str, nodes: Iterable[ObservedNode]) -> dict[str, str]:
    """Return the nodes on which a pod with these `demands` may not run, with the reason of each."""
    asked = json.loads(demanded)
    found = ((node.name, _why_not(node, asked)) for node in nodes)
    return {name: why for name, why in found if why is not None}


def _why_not(node: ObservedNode, asked: Mapping[str, Any]) -> str | None:
    selector, required = asked["selector"], asked["required"]
    if any(node.labels.get(key) != value for key, value in selector.items()):
        pairs = ", ".join(f"{key}={value}" for key, value in selector.items())
        return f"{FIELD}.nodeSelector asks for {pairs}"
    if required is not None:
        terms = [_mapping(term) for term in _mapping(required).get("nodeSelectorTerms") or ()]
        if not any(_matches(node, term) for term in terms):
            return f"{FIELD}.affinity asks for {' or '.join(map(_in_words, terms))}"
    for taint in sorted(node.taints):
        if not taint.is_passing and not any(
            _tolerates(toleration, taint) for toleration in asked["tolerations"]
        ):
            return f"{FIELD}.tolerations has none for the taint {taint}"
    return None


def _matches(node: ObservedNode, term: Mapping[str, Any]) -> bool:
    """Whether a node selector term holds; one without requirements holds nowhere."""
    expressions = [
        *((node.labels, one) for one in term.get("matchExpressions") or ()),
        *(({"metadata.name": node.name}, one) for one in term.get("matchFields") or ()),
    ]
    return bool(expressions) and all(_holds(one, labels) for labels, one in expressions)


def _holds(requirement: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.get("key", ""))
    values: Sequence[str] = requirement.get("values") or ()
    match requirement.get("operator"):
        case "In":
            return value in values
        case "NotIn":
            return value not in values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt" as operator:
            if value is None or len(values) != 1 or not _are_integers(value, values[0]):
                return False
            ours, bound = int(value), int(values[0])
            return ours > bound if operator == "Gt" else ours < bound
        case _:
            return False


def _are_integers(*texts: str) -> bool:
    return all(_INTEGER.fullmatch(text) for text in texts)


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    if effect not in ("", taint.effect):
        return False
    if toleration.get("operator") == "Exists":
        return key in ("", taint.key)
    return key == taint.key and (toleration.get("value") or "") == taint.value


def _in_words(term: Mapping[str, Any]) -> str:
    requirements = [*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ())]
    return " and ".join(
        " ".join(
            filter(None, (one.get("key"), one.get("operator"), ", ".join(one.get("values") or ())))
        )
        for one in requirements
    )


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
