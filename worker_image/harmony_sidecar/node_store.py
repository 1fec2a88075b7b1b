"""`python -m harmony_sidecar.node_store FOLDER`: prepare a node's store, as root.

Sidecars run as users derived from their jobs, who could neither make nor share these folders
themselves: kubelet makes a hostPath root's alone. The store appears in one step, complete, so
that a pod which asks for the folder to exist starts only when it can be used. Preparing it again
mends modes and leaves the content alone.
"""

import os
import sys
import tempfile
from pathlib import Path
from typing import Final

from harmony_api.pod_layout import ELECTION_FOLDER, HARMONY_GROUP, JOBS_FOLDER

_ELECTION_MODE: Final = 0o2770
"""Without the sticky bit: a successor removes its predecessor's files."""
_JOBS_MODE: Final = 0o1777
"""Each job makes a folder of its own in it, and nobody removes another's."""


def prepare(store: Path, group: int = HARMONY_GROUP) -> None:
    """Make or mend `store`; raises OSError, PermissionError when not root among others."""
    if store.exists():
        _furnish(store, group)
        return
    store.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{store.name}.", dir=store.parent))
    _furnish(draft, group)
    draft.rename(store)


def _furnish(folder: Path, group: int) -> None:
    for name, owner, mode in (
        (ELECTION_FOLDER, group, _ELECTION_MODE),
        (JOBS_FOLDER, 0, _JOBS_MODE),
        ("", 0, 0o755),
    ):
        path = folder / name
        path.mkdir(exist_ok=True)
        os.chown(path, 0, owner)
        path.chmod(mode)


def main(arguments: list[str]) -> int:
    """Prepare the folder that is named; return the exit code."""
    if len(arguments) != 1:
        print("usage: python -m harmony_sidecar.node_store FOLDER", file=sys.stderr)
        return 2
    try:
        prepare(Path(arguments[0]))
    except OSError as error:
        print(f"cannot prepare the node's store: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
