from pathlib import Path

import pytest
from cli_report_runs import PAIR, START_NS, JobShape, schedule, write_run
from hypothesis import given, settings
from hypothesis import strategies as st

from harmony_api.sidecar_state import TurnRecord
from harmony_cli.report.bound import Load, bound_seconds, least_seconds
from harmony_cli.report.figures import summarise
from harmony_cli.report.groups import cycle_seconds
from harmony_cli.report.measured_profile import measured_profile
from harmony_cli.report.run_folder import JobRun, Run, WorkerRun, read_run
from harmony_cli.run_record import (
    GroupRecord,
    JobRecord,
    MemberRecord,
    Mode,
    PlanRecord,
    RunRecord,
    SlotRecord,
)
from harmony_planner.schedule import Iteration

MILLISECONDS = st.floats(1, 80)
JOBS = st.lists(
    st.builds(
        JobShape,
        name=st.just(""),
        pull=MILLISECONDS,
        comp=MILLISECONDS,
        push=MILLISECONDS,
        update=MILLISECONDS,
        iterations=st.integers(1, 12),
    ),
    min_size=1,
    max_size=4,
).map(
    lambda shapes: tuple(
        JobShape(f"job-{i}", s.pull, s.comp, s.push, s.update, s.iterations)
        for i, s in enumerate(shapes)
    )
)
MODES = st.sampled_from(["dedicated", "naive", "shared"])


def turn(phase: str, start_ms: float, end_ms: float, **fields: object) -> TurnRecord:
    start_ns, end_ns = (START_NS + round(at * 1e6) for at in (start_ms, end_ms))
    defaults = {"sequence": 0, "iteration": 0, "turn": 1, "epoch": 1, "requested_ns": start_ns}
    return TurnRecord.model_validate(
        defaults | {"phase": phase, "start_ns": start_ns, "end_ns": end_ns} | fields
    )


def load(iterations: int, *, comp: float, net: float, rounds: int = 1) -> Load:
    return Load(iterations, Iteration(comp, net, 0.0, rounds=rounds), "HalfDuplex")


LOADS = st.builds(
    load,
    st.integers(1, 50),
    comp=st.floats(0.01, 1),
    net=st.floats(0.01, 1),
    rounds=st.integers(1, 3),
)


def run_of(
    turns: dict[str, list[list[TurnRecord]]],
    slots: tuple[str, ...] = ("slot-0",),
    plans: tuple[PlanRecord, ...] = (),
    mode: Mode = "shared",
) -> Run:
    record = RunRecord(
        name="run",
        mode=mode,
        permits="Cyclic",
        network="HalfDuplex",
        started_ns=START_NS,
        slots=[SlotRecord(name=name) for name in slots],
        transfer_cpus=[1],
        jobs=[
            JobRecord(
                name=name, manifest="m.yaml", program_folder="/", workers=len(workers), servers=1
            )
            for name, workers in turns.items()
        ],
        plans=list(plans),
    )
    jobs = tuple(
        JobRun(name, tuple(WorkerRun(i, tuple(own), ()) for i, own in enumerate(workers)))
        for name, workers in turns.items()
    )
    return Run(Path("run"), record, jobs, ())


@settings(max_examples=60, deadline=None)
@given(JOBS, MODES)
def test_figures_of_any_schedule_are_possible_ones(jobs: tuple[JobShape, ...], mode: Mode) -> None:
    turns = schedule(jobs, mode)
    summary = summarise(run_of({name: [own] for name, own in turns.items()}, mode=mode))
    for device in summary.devices:
        assert 0 <= device.compute_utilisation <= 1
        assert device.overlaps == 0
    assert 0 <= summary.network.utilisation <= 1
    assert summary.network.excesses == 0
    for job, shape in zip(summary.jobs, jobs, strict=True):
        assert job.iterations == shape.iterations
        assert job.training_seconds <= summary.makespan_seconds + 1e-9
        parts = job.compute_seconds + job.transfer_seconds + job.sync_seconds
        parts += job.permit_waits.total_seconds
        assert 0 <= parts <= job.training_seconds + 1e-6
        assert job.update_seconds <= job.sync_seconds + 1e-9


@settings(max_examples=60, deadline=None)
@given(JOBS)
def test_no_schedule_beats_the_least_time(jobs: tuple[JobShape, ...]) -> None:
    turns = schedule(jobs, "shared")
    summary = summarise(run_of({name: [own] for name, own in turns.items()}))
    loads = [
        load(shape.iterations, comp=shape.comp / 1e3, net=(shape.pull + shape.push) / 1e3)
        for shape in jobs
    ]
    assert summary.makespan_seconds >= least_seconds(loads)[0] - 1e-9


@given(st.lists(LOADS, min_size=1, max_size=4))
def test_keeping_to_rounds_costs_time_but_less_than_running_in_turn(loads: list[Load]) -> None:
    alone = [
        each.iterations * (each.iteration.compute_seconds + each.iteration.pull_seconds)
        for each in loads
    ]
    least = least_seconds(loads)[0]
    assert max(alone) - 1e-9 <= least <= bound_seconds(loads) + 1e-9 <= sum(alone) + 2e-9


def test_the_bound_counts_the_time_after_a_job_has_finished() -> None:
    short, long = load(10, comp=0.1, net=0.1), load(20, comp=0.1, net=0.2)
    assert bound_seconds([short, long]) == pytest.approx(10 * 0.3 + 10 * 0.3)
    assert bound_seconds([short, load(20, comp=0.1, net=0.1)]) == pytest.approx(20 * 0.2)
    assert bound_seconds([short, load(20, comp=0.05, net=0.05, rounds=2)]) == pytest.approx(2)
    assert bound_seconds([]) == 0


def test_utilisation_covers_only_the_time_together() -> None:
    first = [turn("COMP", 0, 100), turn("COMP", 100, 200)]
    second = [turn("COMP", 100, 150), turn("COMP", 250, 300)]
    (device,) = summarise(run_of({"a": [first], "b": [second]})).devices
    assert device.window_seconds == pytest.approx(0.1)
    assert device.compute_utilisation == pytest.approx(1.0)


def test_utilisation_of_jobs_in_turn_covers_their_training_and_not_the_gap() -> None:
    turns = {
        "a": [[turn("COMP", 0, 100), turn("PUSH", 100, 200)]],
        "b": [[turn("PULL", 9000, 9100), turn("COMP", 9100, 9200)]],
    }
    summary = summarise(run_of(turns, mode="dedicated"))
    assert summary.network.window_seconds == pytest.approx(0.4)
    assert summary.network.utilisation == pytest.approx(0.5)


def test_a_job_that_was_stopped_for_a_while_was_not_there_meanwhile() -> None:
    first = [turn("COMP", at, at + 100) for at in range(0, 10_000, 100)]
    second = [turn("COMP", at, at + 100) for at in (0, 100, 9_800, 9_900)]
    summary = summarise(run_of({"a": [first], "b": [second]}))
    assert summary.devices[0].window_seconds == pytest.approx(0.4)
    assert summary.jobs[1].training_seconds == pytest.approx(10)


def test_the_servers_update_counts_as_network_time() -> None:
    sync = turn("SYNC", 0, 100, update_ns=40_000_000)
    summary = summarise(run_of({"a": [[sync, turn("COMP", 100, 200)]]}))
    assert summary.network.utilisation == pytest.approx(0.2)
    assert summary.jobs[0].update_seconds == pytest.approx(0.04)


def test_overlapping_permits_of_one_device_are_counted() -> None:
    turns = {"a": [[turn("COMP", 0, 100)]], "b": [[turn("COMP", 99, 150)]]}
    assert summarise(run_of(turns)).devices[0].overlaps == 1


def test_turns_without_a_permit_may_overlap() -> None:
    turns = {
        "a": [[turn("COMP", 0, 100)]],
        "b": [[turn("COMP", 50, 150, turn=0, coordinated=False)]],
    }
    summary = summarise(run_of(turns))
    assert summary.devices[0].overlaps == 0
    assert summary.jobs[1].uncoordinated_turns == 1


def test_a_third_transfer_exceeds_the_permits() -> None:
    turns = {
        "a": [[turn("PUSH", 0, 100, turn=1)]],
        "b": [[turn("PUSH", 10, 100, turn=2, secondary=True)]],
    }
    assert summarise(run_of(turns)).network.excesses == 0
    turns["c"] = [[turn("PULL", 50, 60, turn=3, secondary=True)]]
    assert summarise(run_of(turns)).network.excesses > 0


def test_workers_compute_on_the_slot_of_the_plan_in_force() -> None:
    def plan(generation: int, at_ms: float, slots: list[str]) -> PlanRecord:
        members = [MemberRecord(job="a", order=0, rounds=1)]
        return PlanRecord(
            generation=generation,
            at_ns=START_NS + round(at_ms * 1e6),
            why="",
            groups=[GroupRecord(name="g", slots=slots, members=members)],
        )

    turns = {"a": [[turn("COMP", 0, 100), turn("COMP", 200, 230)], [turn("COMP", 0, 50)]]}
    run = run_of(
        turns,
        slots=("slot-0", "slot-1"),
        plans=(plan(1, -10, ["slot-0", "slot-1"]), plan(2, 150, ["slot-1", "slot-0"])),
    )
    busy = {device.name: device.window_seconds for device in summarise(run).devices}
    assert busy == pytest.approx({"slot-0": 0.1, "slot-1": 0.23})


def test_a_cycle_is_the_time_in_which_every_member_does_its_rounds() -> None:
    long = [0, 200, 400, 600, 800]
    short = [0, 60, 200, 260, 400, 460, 600, 660]
    starts = [([at * 1_000_000 for at in long], 1), ([at * 1_000_000 for at in short], 2)]
    assert cycle_seconds(starts) == pytest.approx(0.2)
    assert cycle_seconds([([0, 1, 2], 1)]) is None


def test_predicted_and_measured_cycle_of_a_run(tmp_path: Path) -> None:
    (group,) = summarise(read_run(write_run(tmp_path / "run"))).groups
    assert group.jobs == {"digits": 1, "stories": 1}
    assert group.predicted_cycle_seconds == 0.101
    assert group.measured_cycle_seconds == pytest.approx(0.1036, rel=0.01)


def test_a_group_that_a_new_plan_leaves_as_it_was_is_reported_once(tmp_path: Path) -> None:
    folder = write_run(tmp_path / "run")
    record = RunRecord.read(folder)
    (first,) = record.plans
    again = first.model_copy(update={"generation": 2, "at_ns": first.at_ns + 5_000_000_000})
    grown = first.groups[0].model_copy(
        update={"members": [m.model_copy(update={"rounds": 2}) for m in first.groups[0].members]}
    )
    last = first.model_copy(
        update={"generation": 3, "at_ns": first.at_ns + 9_000_000_000, "groups": [grown]}
    )
    record.model_copy(update={"plans": [first, again, last]}).write(folder)
    groups = summarise(read_run(folder)).groups
    assert [(group.generation, group.jobs["digits"]) for group in groups] == [(1, 1), (3, 2)]
    assert groups[0].window_seconds == pytest.approx(9, abs=0.1)


def test_a_profile_leaves_out_waiting_and_transfers_that_shared_the_link() -> None:
    turns = []
    for i in range(20):
        at = i * 400.0
        waited = {"requested_ns": START_NS + round((at - 90) * 1e6), "iteration": i}
        secondary = i % 2 == 0
        turns += [
            turn("SYNC", at, at + 30, iteration=i, update_ns=10_000_000),
            turn("PULL", at + 100, at + (190 if secondary else 120), secondary=secondary, **waited),
            turn("COMP", at + 200, at + 250, **waited),
            turn("PUSH", at + 300, at + 330, bytes=4096, **waited),
        ]
    measured = measured_profile(JobRun("a", (WorkerRun(0, tuple(turns), ()),)), "cpu")
    assert measured is not None
    assert measured.iterations == 17
    assert measured.compute_microseconds == 50_000
    assert measured.pull_microseconds == 20_000
    assert measured.push_microseconds == 30_000
    assert measured.update_microseconds == 10_000
    assert measured.push_bytes == 4096


def test_a_profile_of_a_job_that_always_stood_aside_leaves_the_standing_aside_out() -> None:
    turns = []
    for i in range(20):
        at = i * 400.0
        aside = {"iteration": i, "secondary": True, "paused_ns": 60_000_000, "bytes": 4096}
        turns += [
            turn("PULL", at + 100, at + 180, **aside),
            turn("COMP", at + 200, at + 250, iteration=i),
            turn("PUSH", at + 300, at + 390, **aside),
        ]
    measured = measured_profile(JobRun("a", (WorkerRun(0, tuple(turns), ()),)), "cpu")
    assert measured is not None
    assert (measured.pull_microseconds, measured.push_microseconds) == (20_000, 30_000)
    assert (measured.pull_bytes, measured.push_bytes) == (4096, 4096)


def test_there_is_no_profile_where_a_phase_was_never_seen() -> None:
    turns = tuple(turn("COMP", i * 100.0, i * 100.0 + 50, iteration=i) for i in range(20))
    assert measured_profile(JobRun("a", (WorkerRun(0, turns, ()),)), "cpu") is None


def test_a_profile_of_a_generated_run_has_the_shapes_seconds(tmp_path: Path) -> None:
    summary = summarise(read_run(write_run(tmp_path / "run")))
    for job, shape in zip(summary.jobs, PAIR, strict=True):
        assert job.profile is not None
        assert job.profile.compute_seconds == pytest.approx(shape.comp / 1e3, rel=0.05)
        assert job.profile.update_seconds == pytest.approx(shape.update / 1e3, rel=0.05)


def test_a_job_that_recorded_nothing_has_empty_figures() -> None:
    summary = summarise(run_of({"a": [[]], "b": [[turn("COMP", 0, 10)]]}))
    silent = summary.jobs[0]
    assert (silent.iterations, silent.training_seconds, silent.profile) == (0, 0, None)
    assert silent.seconds_per_iteration is None
