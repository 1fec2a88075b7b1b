"""Files that stay whole, whoever reads them meanwhile and however full the disk is."""

import errno
import os
from pathlib import Path


def replace_text(path: Path, text: str) -> None:
    """Replace the whole file in one step: a reader sees the old or the new.

    On an error the old content stays, and OSError is raised.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        temporary.write_text(text)
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def append_whole(path: Path, text: str) -> None:
    """Append all of the text, or nothing and raise OSError."""
    data = text.encode()
    with path.open("ab", buffering=0) as file:
        size = file.seek(0, os.SEEK_END)
        written = 0
        try:
            written = file.write(data) or 0
        finally:
            if written < len(data):
                file.truncate(size)
        if written < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
