"""`harmony`: the commands, put together."""

import typer

from harmony_cli.commands.plan import plan
from harmony_cli.commands.report import report
from harmony_cli.commands.run import run
from harmony_cli.commands.simulate import simulate
from harmony_cli.commands.validate import validate
from harmony_cli.commands.workload import workload

app = typer.Typer(
    name="harmony",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    help="Co-schedules parameter-server training jobs: one computes while another communicates.",
)
for command in (run, plan, validate, report, simulate, workload):
    app.command(no_args_is_help=True)(command)


def main() -> None:
    """Entry point of the `harmony` program."""
    app()
