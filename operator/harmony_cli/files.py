"""Files that other processes read while they are rewritten: a reader sees the old or the new."""

import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replace the whole file in one step; on an error the old content stays."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
