"""Manifests: YAML files with HarmonyJobs, read so that every error is told at once.

Whoever writes a manifest should correct it in one go. So all files are read and all problems
of all of them are collected, each with its file, line and field, before anything is decided;
a job counts only when there is no problem anywhere.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import ValidationError

from harmony_api.field_errors import FieldPath, explain, path_text
from harmony_api.job import API_VERSION, KIND, HarmonyJob
from harmony_cli import yaml_document
from harmony_cli.yaml_document import Document, Fault


@dataclass(frozen=True)
class Problem:
    """One thing to correct."""

    file: Path
    line: int | None
    path: str
    """Path of the field, as in `spec.workers.template.spec.containers[0].name`."""
    message: str

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else str(self.file)
        return ": ".join(part for part in (place, self.path, self.message) if part)


class ManifestError(Exception):
    """The manifests have problems; `problems` lists them all."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


@dataclass(frozen=True)
class Manifest:
    """A valid job and where it was written."""

    job: HarmonyJob
    file: Path
    document: Document = field(repr=False)

    @property
    def line(self) -> int:
        """Line on which the job's document begins."""
        return self.document.line(())

    def problem(self, path: FieldPath, message: str) -> Problem:
        """Return a problem at a field of this manifest."""
        return Problem(self.file, self.document.line(path), path_text(path), message)


def load_manifests(files: Sequence[Path]) -> list[Manifest]:
    """Return the jobs of all files, in order.

    Raises ManifestError with every problem of every file.
    """
    manifests: list[Manifest] = []
    problems: list[Problem] = []
    named: dict[str, tuple[Path, int]] = {}
    for file in files:
        of_file: list[Problem] = []
        for document in _documents(file, of_file):
            of_file += _name_problems(file, document, named)
            job = _job(file, document, of_file)
            if job is not None:
                manifests.append(Manifest(job, file, document))
        problems += sorted(of_file, key=lambda problem: problem.line or 0)
    if problems:
        raise ManifestError(problems)
    return manifests


def _documents(file: Path, problems: list[Problem]) -> list[Document]:
    """Return a file's well-formed documents; what is wrong is added to `problems`."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        problems.append(Problem(file, None, "", f"cannot be read: {error.strerror}"))
        return []
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        problems.append(Problem(file, line, "", "is not UTF-8: save it as UTF-8 text"))
        return []
    documents: list[Document] = []
    found = list(yaml_document.read_documents(text))
    if not found:
        problems.append(Problem(file, None, "", f"is empty: it should hold a {KIND}"))
    for document in found:
        faults = [document] if isinstance(document, Fault) else document.faults
        problems += [Problem(file, at.line, path_text(at.path), at.message) for at in faults]
        if isinstance(document, Document):
            documents.append(document)
    return documents


def _job(file: Path, document: Document, problems: list[Problem]) -> HarmonyJob | None:
    """Return the document's job; what is wrong is added to `problems`."""
    data = document.data
    if not isinstance(data, dict):
        message = f"is no {KIND}: it should begin with 'apiVersion: {API_VERSION}'"
        problems.append(Problem(file, document.line(()), "", message))
        return None
    if data.get("kind", KIND) != KIND:
        message = f"is {data['kind']!r}: Harmony reads 'kind: {KIND}' only"
        problems.append(Problem(file, document.line(("kind",)), "kind", message))
        return None
    try:
        return HarmonyJob.model_validate(data)
    except ValidationError as error:
        for path, message in explain(HarmonyJob, error):
            problems.append(Problem(file, document.line(path), path_text(path), message))
        return None


def _name_problems(
    file: Path, document: Document, named: dict[str, tuple[Path, int]]
) -> list[Problem]:
    """Return a problem where the document's job has the name of one in `named`, else note it."""
    metadata = document.data.get("metadata") if isinstance(document.data, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(name, str):
        return []
    path = ("metadata", "name")
    line = document.line(path)
    if name in named:
        other_file, other_line = named[name]
        message = f"job '{name}' is already in {other_file}:{other_line}: rename one of them"
        return [Problem(file, line, path_text(path), message)]
    named[name] = (file, line)
    return []
