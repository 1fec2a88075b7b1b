import json
from dataclasses import replace
from pathlib import Path

import pytest
from cli_report_runs import PAIR, write_comparison, write_run
from rich.console import Console
from typer import Typer
from typer.testing import CliRunner

from harmony_cli.commands.report import report
from harmony_cli.report.render import render
from harmony_cli.report.run_folder import ReportError, read_run
from harmony_cli.report.summary import ComparisonSummary, RunSummary
from harmony_cli.run_record import RunRecord

app = Typer()
app.command()(report)


def text(renderable: object) -> str:
    console = Console(width=100)
    with console.capture() as capture:
        console.print(renderable)
    return capture.get()


def test_a_line_cut_by_a_kill_costs_that_line_only(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    turns = folder / "jobs" / "digits" / "turns-0.jsonl"
    whole = len(read_run(folder).jobs[0].workers[0].turns)
    turns.write_bytes(turns.read_bytes()[:-20])
    run = read_run(folder)
    assert len(run.jobs[0].workers[0].turns) == whole - 1
    assert run.notes == ("digits: 1 unreadable line(s) in turns-0.jsonl",)


def test_a_replayed_iteration_counts_once_with_its_last_loss(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    with (folder / "jobs" / "digits" / "losses-0.jsonl").open("a") as log:
        log.write('{"iteration": 199, "loss": 0.5, "hex": "0x1.0p-1"}\n')
    losses = read_run(folder).jobs[0].workers[0].losses
    assert len(losses) == 200
    assert losses[-1].hex == "0x1.0p-1"


def test_a_run_whose_job_left_nothing_is_reported_with_a_note(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for path in (folder / "jobs" / "stories").iterdir():
        path.unlink()
    result = render(folder)
    assert isinstance(result.summary, RunSummary)
    assert "stories left no turns-0.jsonl" in result.summary.notes
    assert "stories" in text(result.table)


def test_a_run_without_any_turn_points_to_its_logs(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    for path in (folder / "jobs").glob("*/turns-*.jsonl"):
        path.unlink()
    with pytest.raises(ReportError, match=r"logs are in .*jobs"):
        render(folder)


def test_a_folder_that_is_no_run_is_refused_with_what_to_pass(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"holds no run\.json.*pass the folder"):
        render(tmp_path)
    with pytest.raises(ReportError, match="is no folder: pass a run folder"):
        render(tmp_path / "nowhere")
    (tmp_path / "run.json").write_text('{"name": "x"')
    with pytest.raises(ReportError, match="is no record of a run"):
        render(tmp_path)


def test_a_run_gets_summary_pictures_and_trace(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    result = render(folder)
    assert {path.name for path in result.files} == {
        "summary.json",
        "timeline.png",
        "timeline.html",
        "trace.json",
    }
    assert (folder / "timeline.png").read_bytes().startswith(b"\x89PNG")
    stored = RunSummary.model_validate_json((folder / "summary.json").read_text())
    assert stored == result.summary
    assert "digits" in text(result.table)


def test_the_page_needs_nothing_from_elsewhere(tmp_path: Path) -> None:
    page = (render(write_run(tmp_path / "run")).files[1]).read_text()
    assert "<script src" not in page
    assert "stories compute" in page


def test_a_long_run_keeps_its_middle_in_the_page_and_says_so(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run", tuple(replace(job, iterations=1000) for job in PAIR))
    page = (render(folder).files[1]).read_text()
    assert "the middle" in page


def test_the_trace_has_named_threads_turns_in_microseconds_and_losses(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    render(folder)
    events = json.loads((folder / "trace.json").read_text())["traceEvents"]
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert list(processes.values()) == ["digits", "stories", "machine"]
    computing = [e for e in events if e["ph"] == "X" and e["name"] == "COMP" and e["pid"] == 1]
    assert len(computing) == 200
    assert all(51_000 < event["dur"] < 56_000 for event in computing)
    losses = [e["args"]["loss"] for e in events if e["ph"] == "C" and e["pid"] == 1]
    assert len(losses) == 200
    assert losses[0] > losses[-1]
    threads = {(e["pid"], e["tid"]) for e in events if e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] == "X"} <= threads


def test_the_command_renders_a_comparison_and_each_of_its_runs(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(write_comparison(tmp_path))])
    assert result.exit_code == 0, result.output
    assert "speed-up" in result.output
    assert (tmp_path / "comparison.png").exists()
    assert (tmp_path / "naive" / "timeline.html").exists()
    ComparisonSummary.model_validate_json((tmp_path / "summary.json").read_text())


def test_a_comparison_that_was_interrupted_is_reported_as_far_as_it_came(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    (tmp_path / "shared" / "run.json").unlink()
    for path in (tmp_path / "naive").rglob("turns-*.jsonl"):
        path.unlink()
    summary = render(tmp_path).summary
    assert isinstance(summary, ComparisonSummary)
    assert [run.mode for run in summary.runs] == ["dedicated"]
    assert summary.speedup_over_dedicated is None


def test_the_command_fails_clearly_where_there_is_no_run(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, [str(tmp_path)])
    assert result.exit_code == 1
    assert "no run.json" in result.output
    assert "Traceback" not in result.output


def test_events_that_warn_become_notes(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    record = RunRecord.read(folder).model_dump()
    record["events"] = [
        {"at_ns": 1, "text": "digits never connected", "warning": True},
        {"at_ns": 2, "text": "digits started"},
    ]
    RunRecord.model_validate(record).write(folder)
    summary = render(folder).summary
    assert isinstance(summary, RunSummary)
    assert summary.notes == ["digits never connected"]


def test_a_path_with_brackets_is_printed_as_it_is(tmp_path: Path) -> None:
    folder = tmp_path / "a[" / "b]"
    failed = CliRunner().invoke(app, [str(folder)])
    assert failed.exit_code == 1
    assert str(folder) in failed.stderr
    folder.parent.mkdir()
    printed = CliRunner().invoke(app, [str(write_run(folder))])
    assert printed.exit_code == 0
    assert str(folder / "summary.json") in printed.stdout
