"""Files that other processes read while they are rewritten: a reader sees the old or the new."""

import os
import tempfile
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replace the whole file in one step; on an error the old content stays."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
