from dataclasses import replace
from pathlib import Path

import pytest
from cli_report_runs import PAIR, JobShape, write_comparison, write_run
from hypothesis import given
from hypothesis import strategies as st

from harmony_cli.report.comparison import compare, same_losses
from harmony_cli.report.run_folder import comparison_folders, read_run
from harmony_cli.report.summary import ComparisonSummary
from harmony_cli.run_record import RunRecord

LOSSES = st.dictionaries(st.integers(0, 9), st.sampled_from(["0x1p+0", "0x1p+1"]))


def comparison(folder: Path) -> ComparisonSummary:
    return compare({mode: read_run(path) for mode, path in comparison_folders(folder).items()})


def test_sharing_is_compared_with_one_after_the_other_and_with_fighting(tmp_path: Path) -> None:
    summary = comparison(write_comparison(tmp_path))
    assert summary.dedicated_seconds is not None
    assert summary.together_seconds is not None
    assert summary.dedicated_seconds == pytest.approx(
        sum(job.alone_seconds or 0 for job in summary.jobs)
    )
    assert summary.speedup_over_dedicated == pytest.approx(
        summary.dedicated_seconds / summary.together_seconds
    )
    assert 1.7 < summary.speedup_over_dedicated < (summary.possible_speedup or 0)
    assert summary.speedup_over_naive is not None
    assert summary.speedup_over_naive > 1
    assert (summary.predicted_cycle_seconds, summary.losses_identical) == (0.101, True)


def test_the_gap_between_dedicated_jobs_is_no_training_time(tmp_path: Path) -> None:
    summary = comparison(write_comparison(tmp_path))
    dedicated = summary.run("dedicated")
    assert dedicated is not None
    assert summary.dedicated_seconds == pytest.approx(dedicated.makespan_seconds - 1.5)


def test_where_there_is_nothing_to_gain_the_verdict_says_why(tmp_path: Path) -> None:
    heavy = tuple(
        JobShape(f"job-{i}", pull=0.5, comp=60, push=0.5, update=0.1, iterations=40)
        for i in range(2)
    )
    verdict = comparison(write_comparison(tmp_path, heavy)).verdict[0]
    assert verdict.startswith("No gain: ")
    assert "computing alone fills the device" in verdict


def test_a_gain_that_was_possible_and_not_made_is_named(tmp_path: Path) -> None:
    write_run(tmp_path / "dedicated", mode="dedicated")
    write_run(tmp_path / "shared", tuple(replace(job, comp=200) for job in PAIR))
    verdict = comparison(tmp_path).verdict[0]
    assert verdict.startswith("No gain: ")
    assert "would allow" in verdict


def test_a_comparison_with_missing_runs_leaves_their_figures_out(tmp_path: Path) -> None:
    write_run(tmp_path / "shared")
    summary = comparison(tmp_path)
    assert summary.speedup_over_dedicated is None
    assert summary.speedup_over_naive is None
    assert summary.possible_speedup is None
    assert summary.losses_identical is None
    assert [job.together_seconds is not None for job in summary.jobs] == [True, True]


def test_runs_that_did_not_do_the_same_iterations_are_not_compared(tmp_path: Path) -> None:
    write_run(tmp_path / "dedicated", mode="dedicated")
    write_run(tmp_path / "shared", tuple(replace(job, iterations=150) for job in PAIR))
    summary = comparison(tmp_path)
    assert summary.speedup_over_dedicated is None
    assert "did not do the same iterations" in summary.verdict[0]


def test_turns_that_died_with_a_sidecar_do_not_change_the_work_that_was_done(
    tmp_path: Path,
) -> None:
    write_comparison(tmp_path)
    turns = tmp_path / "shared" / "jobs" / "digits" / "turns-0.jsonl"
    lines = turns.read_text().splitlines(keepends=True)
    turns.write_text("".join(lines[:300] + lines[340:]))
    assert comparison(tmp_path).speedup_over_dedicated is not None


def test_jobs_on_different_slots_have_no_common_least_time(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    for mode in ("dedicated", "naive", "shared"):
        record = RunRecord.read(tmp_path / mode)
        record.slots.append(record.slots[0].model_copy(update={"name": "cpu-slot-1"}))
        record.write(tmp_path / mode)
    assert comparison(tmp_path).least_seconds is None


def test_one_differing_bit_of_a_loss_is_found_and_told(tmp_path: Path) -> None:
    write_comparison(tmp_path)
    log = tmp_path / "naive" / "jobs" / "stories" / "losses-0.jsonl"
    lines = log.read_text().splitlines()
    lines[7] = lines[7].replace("p+", "1p+")
    log.write_text("\n".join(lines))
    summary = comparison(tmp_path)
    assert [job.losses_identical for job in summary.jobs] == [True, False]
    assert "The losses of stories differ between the runs." in summary.verdict
    assert summary.losses_identical is False


@given(LOSSES, LOSSES)
def test_losses_agree_when_every_common_iteration_does(
    one: dict[int, str], other: dict[int, str]
) -> None:
    count, same = same_losses([one, other])
    common = one.keys() & other.keys()
    assert count == len(common)
    assert same == (all(one[i] == other[i] for i in common) if common else None)
