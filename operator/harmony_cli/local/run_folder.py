"""The run folder: made for a new run, taken up again for one whose runner ended.

A run folder belongs to one runner at a time (a lock, which the kernel drops with the runner),
and holds copies of the manifests, so that a resumed run is the same run.
"""

import fcntl
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harmony_api.job import HarmonyJob
from harmony_cli.manifest import Manifest, ManifestError, load_manifests
from harmony_cli.report.run_folder import MODES
from harmony_cli.run_record import FILE_NAME, RunRecord


class RunFolderError(Exception):
    """The folder cannot be used for this run; the message says what to do."""


@dataclass(frozen=True)
class RunJob:
    """A job to run, and where it came from."""

    job: HarmonyJob
    manifest: str
    """The copy of its manifest, relative to the run folder."""
    program_folder: Path
    """Folder of the manifest as the user gave it."""


def create(run_folder: Path, manifests: Sequence[Manifest]) -> list[RunJob]:
    """Make the folder and copy the manifests into it.

    Raises RunFolderError when the folder holds something already, or cannot be made.
    """
    names: dict[Path, str] = {}
    try:
        if run_folder.exists() and any(run_folder.iterdir()):
            raise RunFolderError(
                f"{run_folder} is not empty: give another --run-folder, or --resume to go on"
            )
        copies = run_folder / "manifests"
        copies.mkdir(parents=True, exist_ok=True)
        for manifest in manifests:
            if manifest.file not in names:
                names[manifest.file] = f"{len(names)}-{manifest.file.name}"
                shutil.copyfile(manifest.file, copies / names[manifest.file])
    except OSError as error:
        raise RunFolderError(
            f"the run folder {run_folder} cannot be made ({error.strerror}): give another "
            "--run-folder"
        ) from error
    return [
        RunJob(
            manifest.job,
            f"manifests/{names[manifest.file]}",
            manifest.file.resolve().parent,
        )
        for manifest in manifests
    ]


def reopen(run_folder: Path) -> tuple[RunRecord, list[RunJob]]:
    """Return the record of an earlier run, and those of its jobs that have not ended.

    Raises RunFolderError when there is nothing to resume.
    """
    try:
        record = RunRecord.read(run_folder)
    except (OSError, ValueError) as error:
        inside = [mode for mode in MODES if (run_folder / mode / FILE_NAME).exists()]
        hint = f"; resume one of the runs in it: {', '.join(inside)}" if inside else ""
        raise RunFolderError(f"{run_folder} is no run that can be resumed{hint}") from error
    wanted = [job for job in record.jobs if job.state not in ("Succeeded", "Failed")]
    if not wanted:
        raise RunFolderError(f"every job of {run_folder} has ended: there is nothing to resume")
    files = sorted({run_folder / job.manifest for job in wanted})
    try:
        by_name = {manifest.job.name: manifest.job for manifest in load_manifests(files)}
    except ManifestError as error:
        raise RunFolderError(f"a copied manifest of the run was changed: {error}") from error
    if missing := [job.name for job in wanted if job.name not in by_name]:
        raise RunFolderError(f"no copied manifest of the run holds {', '.join(missing)} any more")
    for job in wanted:
        if not Path(job.program_folder).is_dir():
            raise RunFolderError(f"{job.program_folder}, where {job.name} came from, is gone")
    return record, [
        RunJob(by_name[job.name], job.manifest, Path(job.program_folder)) for job in wanted
    ]


@contextmanager
def locked(run_folder: Path) -> Iterator[None]:
    """Hold the folder for this process. Raises RunFolderError while another runner has it."""
    try:
        descriptor = os.open(run_folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise RunFolderError(f"{run_folder} cannot be written ({error.strerror})") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunFolderError(f"another `harmony run` works in {run_folder}") from None
        yield
    finally:
        os.close(descriptor)
