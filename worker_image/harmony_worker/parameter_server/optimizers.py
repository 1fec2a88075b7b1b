"""Which torch optimizers a server runs, and how their settings travel.

The server builds the same torch.optim class from the class's name and each param group's
hyperparameters, so whatever torch computes in a local loop the server computes too. Settings
travel as JSON, whose floats are exact.
"""

import json
from collections.abc import Mapping
from typing import Any, Final

import torch

Hyperparameters = Mapping[str, Any]
"""Settings of one param group (`lr`, `betas`, ...), without its `params`."""

ELEMENTWISE: Final = frozenset(
    {
        "ASGD",
        "Adadelta",
        "Adagrad",
        "Adam",
        "AdamW",
        "Adamax",
        "NAdam",
        "RAdam",
        "RMSprop",
        "Rprop",
        "SGD",
    }
)
"""Optimizers that treat each element alone, so that a tensor may be cut anywhere."""

SPARSE: Final = frozenset({"SGD", "Adagrad", "SparseAdam"})
"""Optimizers that a sparse table can use."""


class UnsupportedOptimizerError(ValueError):
    """The optimizer cannot run on a parameter server; the message says what to use instead."""


def check_dense(name: str) -> None:
    """Raise UnsupportedOptimizerError unless `name` can update dense parameters on a server."""
    if name == "LBFGS":
        raise UnsupportedOptimizerError(
            "LBFGS calls the model again within its step, which a server cannot do: "
            "use a first-order optimizer such as Adam or SGD"
        )
    if name == "SparseAdam":
        raise UnsupportedOptimizerError(
            "SparseAdam updates sparse tables only: use Adam or SGD for the dense parameters"
        )
    if not _is_torch_optimizer(name):
        raise UnsupportedOptimizerError(
            f"{name} is not one of torch.optim's optimizers, which are all a server runs"
        )


def check_sparse(table: str, name: str, hyperparameters: Hyperparameters) -> None:
    """Raise UnsupportedOptimizerError unless these settings can update a sparse table."""
    if name not in SPARSE:
        raise UnsupportedOptimizerError(
            f"table {table!r}: {name} has no rule for sparse rows: use SGD without momentum, "
            "Adagrad or SparseAdam"
        )
    for setting in ("momentum", "weight_decay"):
        if hyperparameters.get(setting):
            raise UnsupportedOptimizerError(
                f"table {table!r}: {name} with {setting} would change rows that no worker "
                f"touched: set {setting} to 0 for sparse tables"
            )


def hyperparameters_of(group: Mapping[str, Any]) -> dict[str, Any]:
    """Return a param group's settings without its parameters, as plain JSON values.

    Raises UnsupportedOptimizerError when a setting has no JSON form. A tensor of one element,
    such as a learning rate, becomes a float.
    """
    plain = {
        key: value.item() if isinstance(value, torch.Tensor) else value
        for key, value in group.items()
        if key not in ("params", "param_names")
    }
    try:
        json.dumps(plain)
    except (TypeError, ValueError) as error:
        raise UnsupportedOptimizerError(
            f"the optimizer's settings {plain} cannot be sent to a server: {error}"
        ) from error
    return plain


def settings_from_json(group: Hyperparameters) -> dict[str, Any]:
    """Return settings as torch expects them: JSON's lists become tuples (`betas`)."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in group.items()}


def build(name: str, groups: list[dict[str, Any]]) -> torch.optim.Optimizer:
    """Build torch.optim.<name> on the groups; raises ValueError or TypeError as torch does."""
    if not _is_torch_optimizer(name):
        raise UnsupportedOptimizerError(f"{name} is not one of torch.optim's optimizers")
    optimizer_class = getattr(torch.optim, name)
    optimizer: torch.optim.Optimizer = optimizer_class(groups)
    return optimizer


def copied_state(optimizer: torch.optim.Optimizer, parameter: torch.Tensor) -> dict[str, Any]:
    """Return a copy of what the optimizer remembers of a parameter; empty before its first step."""
    return {
        key: entry.clone() if isinstance(entry, torch.Tensor) else entry
        for key, entry in optimizer.state.get(parameter, {}).items()
    }


def _is_torch_optimizer(name: str) -> bool:
    found = getattr(torch.optim, name, None)
    return (
        isinstance(found, type)
        and issubclass(found, torch.optim.Optimizer)
        and found is not torch.optim.Optimizer
    )
