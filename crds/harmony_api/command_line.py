"""What Kubernetes does to a container's command, args and env before the program starts.

A local run starts the same program without a container, so it must see the same command line:
`$(NAME)` stands for a variable, `$$` for a dollar sign, and an unknown variable stays as it is.
"""

import re
from collections.abc import Mapping

from harmony_api.pod_template import Container

_REFERENCE = re.compile(r"\$(?:\$|\((?P<name>[^)]*)\))")


def expand(text: str, environment: Mapping[str, str]) -> str:
    """Replace the `$(NAME)` references of `text`, as kubelet does."""

    def replacement(reference: re.Match[str]) -> str:
        name = reference["name"]
        return "$" if name is None else environment.get(name, reference[0])

    return _REFERENCE.sub(replacement, text)


def container_environment(container: Container, base: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the container's program.

    `base` is what Harmony sets; the manifest's entries come on top, in order, and may refer to
    `base` and to entries before them. Entries with `valueFrom` need a cluster and are left out.
    """
    environment = dict(base)
    for variable in container.env:
        if variable.value_from is None:
            environment[variable.name] = expand(variable.value, environment)
    return environment


def command_line(container: Container, environment: Mapping[str, str]) -> list[str]:
    """Return the program and its arguments, expanded; empty where the image would decide."""
    return [expand(word, environment) for word in (*container.command, *container.args)]
