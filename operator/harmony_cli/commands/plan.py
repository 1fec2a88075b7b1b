"""`harmony plan`: what `harmony run` would decide, and why, without starting anything."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated

import typer
from pydantic import TypeAdapter, ValidationError
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harmony_api.profile import JobProfile
from harmony_api.quantity import QuantityError, parse_bytes
from harmony_cli.commands.validate import load_or_exit
from harmony_cli.local import planning
from harmony_cli.local.slots import Machine, find_machine
from harmony_planner import planner
from harmony_planner.snapshot import Group, Network, Plan
from harmony_planner.wording import milliseconds

_PROFILES = TypeAdapter(dict[str, JobProfile])


def plan(
    files: Annotated[
        list[Path], typer.Argument(metavar="FILE...", help="YAML files with HarmonyJobs.")
    ],
    slots: Annotated[
        int | None,
        typer.Option(min=1, help="CPU slots to plan for; default: the workers of the widest job."),
    ] = None,
    network: Annotated[
        Network,
        typer.Option(help="FullDuplex: PULL and PUSH do not slow each other on this network."),
    ] = "HalfDuplex",
    memory: Annotated[
        str | None, typer.Option(help="Device memory of each slot, such as 16Gi; default: its own.")
    ] = None,
    profiles: Annotated[
        Path | None,
        typer.Option(help="Measured profiles: a run's summary.json, or JSON of name to profile."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Print one sentence for each job instead of tables.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show which jobs would share which slots, in which order, and why.

    Examples: `harmony plan a.yaml b.yaml`,
    `harmony plan a.yaml b.yaml --profiles runs/demo/shared/summary.json --slots 2`.
    """
    manifests = load_or_exit(files)
    jobs = [manifest.job for manifest in manifests]
    try:
        measured = read_profiles(profiles) if profiles is not None else {}
        memory_bytes = parse_bytes(memory) if memory is not None else None
    except (ProfilesError, QuantityError) as error:
        raise typer.BadParameter(str(error)) from None
    machine = find_machine(
        slots or max(job.spec.workers.least for job in jobs),
        want_gpus=any(job.spec.workers.gpus_per_worker for job in jobs),
    )
    if memory_bytes is not None:
        machine = _with_memory(machine, memory_bytes)
    expected = planning.expected_profiles(jobs, measured)
    decision = planner.plan(
        planning.snapshot(
            jobs, machine, expected, separated={}, last=Plan(), corrections={}, network=network
        )
    )
    if as_json:
        typer.echo(json.dumps(asdict(decision), indent=1))
        return
    if explain:
        sentences = _sentences(decision)
        for job in jobs:
            typer.echo(f"{job.name}: {sentences[job.name]}")
        return
    console = Console()
    for note in machine.notes:
        console.print(f"[dim]{escape(note)}[/dim]")
    for table in _tables(decision):
        console.print(table)


class ProfilesError(Exception):
    """The file holds no profiles."""


def read_profiles(file: Path) -> Mapping[str, JobProfile]:
    """Return profiles by job, from a run's summary or from a plain mapping.

    Raises ProfilesError where the file holds neither.
    """
    try:
        data = json.loads(file.read_bytes())
        if isinstance(data, dict) and isinstance(data.get("jobs"), list):
            data = {job["name"]: job["profile"] for job in data["jobs"] if job["profile"]}
        return _PROFILES.validate_python(data)
    except OSError as error:
        raise ProfilesError(f"{file} cannot be read: {error.strerror}") from None
    except (ValueError, KeyError, TypeError, ValidationError):
        raise ProfilesError(
            f"{file} holds no profiles: give a run's summary.json, or JSON such as "
            '{"job": {"computeMicroseconds": 120000, "pullMicroseconds": 40000, '
            '"pushMicroseconds": 40000}}'
        ) from None


def _with_memory(machine: Machine, memory_bytes: int) -> Machine:
    slots = tuple(replace(slot, memory_bytes=memory_bytes) for slot in machine.slots)
    return replace(machine, slots=slots)


def _sentences(decision: Plan) -> dict[str, str]:
    """Return why each job is where it is, or waits."""
    seated = {member.job: member.reason for group in decision.groups for member in group.members}
    return seated | {waiting.job: waiting.reason for waiting in decision.waiting}


def _tables(decision: Plan) -> Iterator[Table]:
    for group in decision.groups:
        table = _table(f"{group.name} on {', '.join(group.slots)}", _expected(group))
        for member in group.members:
            slower = ""
            if group.prediction is not None:
                slower = f"{group.prediction.slowdown_percent[member.job]:.0f} %"
            table.add_row(str(member.order), member.job, str(member.rounds), slower, member.reason)
        yield table
    if decision.waiting:
        table = _table("waiting", None)
        for waiting in decision.waiting:
            table.add_row("", waiting.job, "", "", waiting.reason)
        yield table


def _table(title: str, caption: str | None) -> Table:
    table = Table(
        title=title,
        title_justify="left",
        caption=caption,
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for column in ("order", "job", "rounds", "slower"):
        table.add_column(column, justify="left" if column == "job" else "right", no_wrap=True)
    table.add_column("why")
    return table


def _expected(group: Group) -> str:
    """Return what the model expects of a group, in one line."""
    prediction = group.prediction
    if prediction is None:
        return "cycle: not known before the jobs are measured"
    limit = {"Compute": "COMP", "Network": "NET", "Servers": "the servers", "Job": "its own phases"}
    return (
        f"cycle {milliseconds(prediction.cycle_seconds)}, "
        f"in turn {milliseconds(prediction.serial_seconds)}, "
        f"COMP {100 * prediction.compute_utilisation:.0f} %, "
        f"NET {100 * prediction.network_utilisation:.0f} %, "
        f"limited by {limit[prediction.bound]}"
    )
