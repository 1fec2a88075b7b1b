"""Rules over several fields, in the language in which an API server checks them (CEL).

They stand in the models next to the validators that check the same, because a manifest may be
read without a cluster. A rule's message is what a user sees at `kubectl apply`, so it says
what to change. Transition rules exist here only: a file has no history.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One CEL rule on `self`, the object that it belongs to (and `oldSelf`, its last state)."""

    holds: str
    """What must be true."""
    message: str
    """What a user reads when it is not."""
    message_expression: str = ""
    """CEL for a message with values, which is read instead."""
    field_path: str = ""
    """The field to blame, as `.name`; empty: the object itself."""

    def to_dict(self) -> dict[str, str]:
        """Return the rule as a definition has it."""
        fields = {
            "rule": self.holds,
            "message": self.message,
            "messageExpression": self.message_expression,
            "fieldPath": self.field_path,
        }
        return {name: value for name, value in fields.items() if value}


def rules(*its_rules: Rule) -> dict[str, Any]:
    """Return the rules of a model, for its `json_schema_extra`."""
    return {"x-kubernetes-validations": [rule.to_dict() for rule in its_rules]}


def immutable(field: str) -> Rule:
    """Return the rule that a field, set or not, stays as it was at creation."""
    return Rule(
        holds=f"has(self.{field}) == has(oldSelf.{field})"
        f" && (!has(self.{field}) || self.{field} == oldSelf.{field})",
        message=f"{field} cannot be changed: delete the job and create it anew",
        field_path=f".{field}",
    )


def list_by(key: str) -> dict[str, Any]:
    """Return, for a list's `json_schema_extra`, that no two elements have the same `key`."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": [key]}
