"""`harmony report`: render a run again from its folder."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from harmony_cli.report.run_folder import ReportError


def report(
    run: Annotated[
        Path,
        typer.Argument(
            metavar="RUN", help="A run folder, or one that holds dedicated, naive and shared runs."
        ),
    ],
) -> None:
    """Print a run's table, and write its summary, pictures and trace again.

    Examples: `harmony report runs/demo`, `harmony report runs/demo/shared`.
    """
    try:
        print_report(run, Console())
    except (ReportError, OSError) as error:
        Console(stderr=True).print(Text(str(error), style="red"), soft_wrap=True)
        raise typer.Exit(1) from None


def print_report(run: Path, console: Console) -> None:
    """Render a folder and print its table and files. Raises ReportError as `render` does."""
    from harmony_cli.report.render import render  # the pictures' libraries load slowly

    result = render(run)
    console.print(result.table)
    for path in result.files:
        console.print(Text(str(path), style="dim"), soft_wrap=True)
