"""`harmony validate`: say everything that is wrong with some manifests, or that nothing is."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from harmony_cli.local_view import left_aside
from harmony_cli.manifest import Manifest, ManifestError, load_manifests


def validate(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="YAML files with HarmonyJobs.")
    ],
) -> None:
    """Check manifests: every problem of every file, with its line and field.

    Examples: `harmony validate job.yaml`, `harmony validate worker_image/examples/*.yaml`.
    """
    console = Console(soft_wrap=True, highlight=False)
    manifests = load_or_exit(files)
    for manifest in manifests:
        if fields := left_aside(manifest.job):
            note = f"{manifest.job.name}: a local run leaves aside {', '.join(fields)}"
            console.print(f"[dim]{escape(note)}[/dim]")
    count = len(manifests)
    console.print("1 job is valid" if count == 1 else f"{count} jobs are valid")


def load_or_exit(files: list[Path], *, code: int = 1) -> list[Manifest]:
    """Return the files' jobs, or print all problems and end the program with `code`."""
    try:
        return load_manifests(files)
    except ManifestError as error:
        errors = Console(stderr=True, soft_wrap=True, highlight=False)
        for problem in error.problems:
            errors.print(f"[red]{escape(str(problem))}[/red]")
        count = len(error.problems)
        errors.print("1 problem" if count == 1 else f"{count} problems")
        raise typer.Exit(code) from None
