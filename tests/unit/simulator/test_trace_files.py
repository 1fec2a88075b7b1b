"""Trace files: what is read, and how mistakes are told."""

from pathlib import Path

import pytest
from published_traces import needs_published_traces, published
from simulated_jobs import job

from harmony_simulator.formats import harmony, muri
from harmony_simulator.trace import Cluster, Trace, TraceError

MURI_HEADER = (
    "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,"
    "iteration_time,resource_time_0,resource_time_1,resource_time_2,priority"
)
GOOD = "0,4,1456000,100,bert,4,27000,0,190,0.5,163,18,1"


def muri_file(folder: Path, *rows: str, header: str = MURI_HEADER) -> Path:
    file = folder / "trace.csv"
    file.write_text("\n".join((header, *rows)) + "\n")
    return file


def problems(file: Path) -> list[str]:
    with pytest.raises(TraceError) as error:
        muri.read_trace(file)
    return [str(problem).removeprefix(f"{file}:") for problem in error.value.problems]


def test_milliseconds_become_seconds(tmp_path: Path) -> None:
    (read,) = muri.read_trace(muri_file(tmp_path, GOOD)).jobs

    assert (read.id, read.gpus, read.submit_seconds) == ("0", 4, 1456.0)
    assert (read.iterations, read.iteration_seconds) == (100.0, 0.19)
    assert (read.known_duration_seconds, read.priority) == (27.0, 1)
    assert read.stages.total_seconds == pytest.approx(0.1815)


def test_jobs_are_ordered_by_submission_and_of_one_time_by_line(tmp_path: Path) -> None:
    rows = [f"{name},1,{time},1,bert,4,1,0,190,1,1,1,0" for name, time in (("a", 5), ("b", 0))]
    file = muri_file(tmp_path, *rows, "c,1,0,1,bert,4,1,0,190,1,1,1,0")

    assert [read.id for read in muri.read_trace(file).jobs] == ["b", "c", "a"]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        (GOOD.replace("1456000", "-3"), "2: submit_time: -3 is negative"),
        (GOOD.replace("1456000", "soon"), "2: submit_time: soon is not a number"),
        (GOOD.replace("1456000", "nan"), "2: submit_time: nan is not a finite number"),
        (GOOD.replace("1456000", ""), "2: submit_time: is empty"),
        (
            GOOD.replace("1456000", "9e15"),
            "2: submit_time: 9e15 is absurd, the most is 3.15576e+12",
        ),
        (GOOD.replace(",190,", ",0,"), "2: iteration_time: 0 should be more than 0"),
        (GOOD.replace("0,4,", "0,0,", 1), "2: num_gpu: 0 is not within 1 and 1000000"),
        (GOOD.replace("0,4,", "0,1.5,", 1), "2: num_gpu: 1.5 is not a whole number"),
        (GOOD.replace(",100,", ",1e12,"), "2: job 0 would run for 1.9e+11 s: check its units"),
        ("0,4,1456000", "2: has 3 values, the header names 13"),
    ],
)
def test_a_mistake_is_told_with_its_line(tmp_path: Path, row: str, problem: str) -> None:
    assert problems(muri_file(tmp_path, row)) == [problem]


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    file = muri_file(tmp_path, GOOD, GOOD.replace("1456000", "-3"), "1,4,x,1,bert,4,1,0,1,1,1,1,z")

    assert problems(file) == [
        "3: submit_time: -3 is negative",
        "3: job 0 is already on line 2",
        "4: submit_time: x is not a number",
        "4: priority: z is not a whole number",
    ]


def test_missing_columns_are_named(tmp_path: Path) -> None:
    header = MURI_HEADER.replace("num_gpu,", "").replace("duration,", "")

    assert problems(muri_file(tmp_path, header=header)) == [
        "1: misses the columns num_gpu, duration"
    ]


def test_a_file_without_jobs_or_that_is_not_there_is_told(tmp_path: Path) -> None:
    assert problems(muri_file(tmp_path)) == [" holds no job"]
    with pytest.raises(TraceError, match="cannot be read: No such file"):
        muri.read_trace(tmp_path / "none.csv")


def test_a_file_that_is_not_text_is_told_with_the_line(tmp_path: Path) -> None:
    file = tmp_path / "trace.csv"
    file.write_bytes(MURI_HEADER.encode() + b"\n\xff\n")

    assert problems(file) == ["2: is not UTF-8: save it as UTF-8 text"]


def test_what_is_written_in_the_own_format_is_read_back_unchanged(tmp_path: Path) -> None:
    trace = Trace.of([job("a", submit=0.1 + 0.2), job("b", gpus=3, seconds=1 / 3, network=2.5)])
    harmony.write_trace(trace, tmp_path / "own.csv")

    assert harmony.read_trace(tmp_path / "own.csv") == trace


def test_a_cluster_file_gives_nodes_and_their_gpus(tmp_path: Path) -> None:
    file = muri_file(tmp_path, "2,4,8", header="num_switch,num_node_p_switch,num_gpu_p_node")

    assert muri.read_cluster(file) == Cluster(nodes=8, gpus_per_node=8)


def test_a_cluster_without_nodes_is_told_with_its_line(tmp_path: Path) -> None:
    file = muri_file(tmp_path, "1,0,8", header="num_switch,num_node_p_switch,num_gpu_p_node")

    with pytest.raises(TraceError, match=r":2: num_node_p_switch: 0 is not within 1"):
        muri.read_cluster(file)


@needs_published_traces
def test_every_published_trace_can_be_read() -> None:
    names = ("trace3", "trace3_pr", "trace4", "cluster_trace")

    assert [len(published(name).jobs) for name in names] == [992, 992, 2638, 400]
    assert all(len(published(f"job_type_{kinds}").jobs) == 992 for kinds in (1, 2, 4))
