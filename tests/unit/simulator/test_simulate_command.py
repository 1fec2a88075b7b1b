import csv
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from harmony_cli.main import app
from harmony_simulator.formats.harmony import COLUMNS
from harmony_simulator.plots import mean_over_time
from harmony_simulator.runs import Run, run_all
from harmony_simulator.trace import Cluster
from harmony_simulator.workload.generator import Workload

JOBS = (
    ",".join(COLUMNS),
    "a,1,0,1000,mlp,1.0,0,0.5,0.5,1000,0",
    "b,1,0,1000,mlp,1.0,0,0.5,0.5,1000,0",
    "giant,9,0,1000,mlp,1.0,0,0.5,0.5,1000,0",
)


def invoke(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def plain(result: Result) -> str:
    return " ".join(re.sub(r"[╭│╰─╮╯]", " ", result.output).split())


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    file = tmp_path / "jobs.csv"
    file.write_text("\n".join(JOBS) + "\n", "utf-8")
    return file


def test_a_table_compares_policies_and_says_what_never_ran(trace: Path) -> None:
    result = invoke("simulate", trace, "--nodes", "1", "--policy", "dedicated", "--policy", "naive")
    assert result.exit_code == 0
    assert "dedicated" in plain(result)
    assert "naive: giant asks for 9 GPUs, and the whole cluster has 1" in plain(result)


def test_the_folder_gets_tables_of_every_seed_and_pictures(trace: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = invoke(
        "simulate", trace, "--nodes", "2", "--policy", "harmony", "--seeds", "2", "--output", out,
        "--processes", "1",
    )  # fmt: skip
    assert result.exit_code == 0
    assert {path.name for path in out.iterdir()} == {
        "harmony-seed-1-jobs.parquet",
        "harmony-seed-1-samples.parquet",
        "harmony-seed-2-jobs.parquet",
        "harmony-seed-2-samples.parquet",
        "completion-times.png",
        "utilisation.png",
        "queue.png",
        "summary.csv",
    }
    table = pq.read_table(out / "harmony-seed-1-jobs.parquet").to_pylist()
    assert [row["id"] for row in table] == ["a", "b", "giant"]
    assert table[2]["finish_seconds"] is None
    with (out / "summary.csv").open() as stream:
        assert next(csv.DictReader(stream))["unfinished"] == "1"


def test_every_problem_of_a_trace_is_told_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "bad.csv"
    file.write_text("\n".join([JOBS[0], JOBS[1].replace(",0,1000", ",-3,1000"), JOBS[1], JOBS[1]]))
    result = invoke("simulate", file)
    assert result.exit_code == 1
    assert "bad.csv:2: submit_seconds: -3 is negative" in plain(result)
    assert "bad.csv:4: job a is already on line" in plain(result)


def test_a_trace_that_is_not_there_is_told_in_one_line(tmp_path: Path) -> None:
    result = invoke("simulate", tmp_path / "none.csv")
    assert result.exit_code == 1
    assert "cannot be read: No such file" in plain(result)


def test_a_policy_of_the_other_world_is_refused_with_those_that_there_are(trace: Path) -> None:
    result = invoke("simulate", trace, "--policy", "muri-s")
    assert result.exit_code == 2
    assert "muri-s is no policy of Harmony's world" in plain(result)
    assert "partitions" in plain(result)


def test_a_workload_can_be_written_and_simulated_in_either_world(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    assert invoke("workload", file, "--jobs", "6").exit_code == 0
    for world, policy in (("Harmony", "srtf"), ("Muri", "muri-s")):
        result = invoke("simulate", file, "--world", world, "--policy", policy, "--nodes", "32")
        assert result.exit_code == 0, result.output


def test_a_workload_that_cannot_be_written_is_said_so(tmp_path: Path) -> None:
    result = invoke("workload", tmp_path / "none" / "jobs.csv")
    assert result.exit_code == 2
    assert "cannot be written" in plain(result)


def test_results_do_not_depend_on_the_number_of_processes() -> None:
    trace = Workload(jobs=6).trace()
    runs = [
        Run(trace=trace, policy=policy, cluster=Cluster(32, 1)) for policy in ("harmony", "naive")
    ]
    told: list[int] = []
    assert run_all(runs, processes=2, on_progress=told.append) == run_all(runs, processes=1)
    assert told[-1] == 12


def test_a_mean_over_time_weighs_values_by_how_long_they_hold() -> None:
    middles, means = mean_over_time([0.0, 1.0, 4.0], [1.0, 0.0, 9.0], bins=2)
    assert middles.tolist() == [1.0, 3.0]
    assert means.tolist() == [0.5, 0.0]
