from itertools import pairwise
from pathlib import Path

import pytest
from cli_report_runs import write_run

from harmony_cli.report.run_folder import read_run
from harmony_cli.report.timeline import (
    MACHINE,
    WINDOW_CYCLES,
    Row,
    Segment,
    Timeline,
    build_timeline,
    lanes,
    visible,
)
from harmony_cli.run_record import Mode, RunRecord


def timeline_of(folder: Path, mode: Mode) -> Timeline:
    return build_timeline(read_run(write_run(folder / mode, mode=mode)))


def machine_row(timeline: Timeline, name: str) -> Row:
    return next(row for row in timeline.rows if row.owner == MACHINE and row.name == name)


def assert_no_overlap_within_a_lane(segments: list[Segment], lane_of: list[int]) -> None:
    for lane in set(lane_of):
        inside = [s for s, own in zip(segments, lane_of, strict=True) if own == lane]
        foreground = [segment for segment in inside if not segment.in_background]
        assert all(one.end_ns <= other.start_ns for one, other in pairwise(foreground))


def test_every_worker_has_its_rows_and_the_machine_comes_last(tmp_path: Path) -> None:
    timeline = timeline_of(tmp_path, "shared")
    assert [(row.owner, row.name) for row in timeline.rows] == [
        ("digits", "compute"),
        ("digits", "network"),
        ("stories", "compute"),
        ("stories", "network"),
        (MACHINE, "cpu-slot-0"),
        (MACHINE, "network"),
    ]
    kinds = {segment.kind for row in timeline.rows for segment in row.segments}
    assert kinds == {"PULL", "COMP", "PUSH", "Update", "Wait"}


@pytest.mark.parametrize("mode", ["shared", "naive", "dedicated"])
def test_the_window_shows_some_cycles_while_jobs_ran(tmp_path: Path, mode: Mode) -> None:
    timeline = timeline_of(tmp_path, mode)
    low, high = timeline.window
    assert timeline.origin_ns <= low < high <= timeline.end_ns
    starts = [s for s in visible(timeline.rows[0].segments, timeline.window) if s.kind == "COMP"]
    if mode != "dedicated":
        assert WINDOW_CYCLES - 1 <= len(starts) <= 2 * WINDOW_CYCLES


@pytest.mark.parametrize(("mode", "strips"), [("shared", 1), ("naive", 2), ("dedicated", 1)])
def test_a_machine_row_is_divided_where_turns_overlap(
    tmp_path: Path, mode: Mode, strips: int
) -> None:
    timeline = timeline_of(tmp_path, mode)
    for name in ("cpu-slot-0", "network"):
        row = machine_row(timeline, name)
        segments = visible(row.segments, timeline.window)
        lane_of = lanes(timeline, row, segments)
        assert len(set(lane_of)) == strips
        assert_no_overlap_within_a_lane(segments, lane_of)


def test_directions_of_a_full_duplex_link_have_a_strip_each(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    RunRecord.read(folder).model_copy(update={"network": "FullDuplex"}).write(folder)
    timeline = build_timeline(read_run(folder))
    row = machine_row(timeline, "network")
    strips = {
        (segment.kind, lane)
        for segment, lane in zip(
            row.segments, lanes(timeline, row, list(row.segments)), strict=True
        )
    }
    assert strips == {("PULL", 0), ("PUSH", 1), ("Update", 1)}


def test_workers_of_one_job_are_told_apart(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    record = RunRecord.read(folder)
    record.jobs[0].workers = 2
    record.write(folder)
    turns = folder / "jobs" / "digits" / "turns-0.jsonl"
    turns.with_name("turns-1.jsonl").write_text(turns.read_text())
    owners = {row.owner for row in build_timeline(read_run(folder)).rows}
    assert owners == {"digits 0", "digits 1", "stories", MACHINE}
