"""Makes run folders as real runs leave them, from a small deterministic schedule."""

import heapq
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from harmony_api.sidecar_state import PhaseName, TurnRecord
from harmony_cli.run_record import (
    GroupRecord,
    JobRecord,
    MemberRecord,
    Mode,
    PlanRecord,
    PredictionRecord,
    RunRecord,
    SlotRecord,
)

START_NS = 5_000_000_000_000
PHASES: tuple[PhaseName, ...] = ("SYNC", "PULL", "COMP", "PUSH")


@dataclass(frozen=True)
class JobShape:
    """Milliseconds of each phase, and how many iterations."""

    name: str
    pull: float
    comp: float
    push: float
    update: float
    iterations: int
    rounds: int = 1

    def milliseconds(self, phase: PhaseName) -> float:
        by_phase = {"SYNC": self.update, "PULL": self.pull, "COMP": self.comp, "PUSH": self.push}
        return by_phase[phase]


PAIR = (
    JobShape("digits", pull=18, comp=52, push=22, update=9, iterations=200),
    JobShape("stories", pull=14, comp=44, push=17, update=12, iterations=200),
)


def schedule(
    jobs: tuple[JobShape, ...], mode: Mode, *, start_ns: int = START_NS, seed: int = 1
) -> dict[str, list[TurnRecord]]:
    """First come, first served permits (shared), none but slower phases (naive), or in turn."""
    if mode == "dedicated":
        turns: dict[str, list[TurnRecord]] = {}
        for job in jobs:
            turns |= schedule((job,), "shared", start_ns=start_ns, seed=seed)
            start_ns = turns[job.name][-1].end_ns + 1_500_000_000
        return turns
    random_state = random.Random(seed)
    result: dict[str, list[TurnRecord]] = defaultdict(list)
    free: dict[str, int] = defaultdict(int)
    ready = [(start_ns + 1_000_000 * place, place, 0) for place in range(len(jobs))]
    turn_number = 0
    while ready:
        asked, place, step = heapq.heappop(ready)
        job = jobs[place]
        phase = PHASES[step % 4]
        iteration = step // 4
        factor = 1 + 0.04 * random_state.random() + (0.85 if mode == "naive" else 0)
        length = round(job.milliseconds(phase) * 1e6 * factor)
        start = asked
        if phase == "SYNC" and iteration == 0:
            length = 0
        elif phase != "SYNC" and mode == "shared":
            resource = "COMP" if phase == "COMP" else "NET"
            start = max(asked, free[resource]) + 40_000
            free[resource] = start + length
        turn_number += 1
        permit = phase != "SYNC" and mode == "shared"
        result[job.name].append(
            TurnRecord(
                sequence=step,
                phase=phase,
                iteration=iteration,
                turn=(1 << 32) + turn_number if permit else 0,
                epoch=1,
                requested_ns=asked,
                start_ns=start,
                end_ns=start + length,
                bytes=20_000_000 if phase in ("PULL", "PUSH") else 0,
                update_ns=length if phase == "SYNC" else 0,
                coordinated=permit,
            )
        )
        if step + 1 < 4 * job.iterations:
            heapq.heappush(ready, (start + length + 100_000, place, step + 1))
    return dict(result)


def write_run(
    folder: Path,
    jobs: tuple[JobShape, ...] = PAIR,
    mode: Mode = "shared",
    *,
    predicted_cycle_seconds: float | None = 0.101,
    seed: int = 1,
) -> Path:
    """Write a run folder, without what reports make of it."""
    turns = schedule(jobs, mode, seed=seed)
    for job in jobs:
        job_folder = folder / "jobs" / job.name
        job_folder.mkdir(parents=True)
        (job_folder / "turns-0.jsonl").write_text(
            "".join(turn.model_dump_json(by_alias=True) + "\n" for turn in turns[job.name])
        )
        (job_folder / "losses-0.jsonl").write_text(
            "".join(
                f'{{"iteration": {i}, "loss": {loss!r}, "hex": "{loss.hex()}"}}\n'
                for i in range(job.iterations)
                for loss in [2.3 / (1 + 0.05 * i)]
            )
        )
    prediction = predicted_cycle_seconds and PredictionRecord(
        cycle_seconds=predicted_cycle_seconds,
        serial_seconds=0.188,
        compute_utilisation=0.95,
        network_utilisation=0.91,
    )
    members = [MemberRecord(job=job.name, order=i, rounds=job.rounds) for i, job in enumerate(jobs)]
    grouped = [members] if mode != "dedicated" else [[member] for member in members]
    record = RunRecord(
        name=folder.name,
        mode=mode,
        permits="Cyclic" if mode == "shared" else "None",
        network="HalfDuplex",
        started_ns=START_NS - 3_000_000_000,
        ended_ns=max(turn.end_ns for own in turns.values() for turn in own),
        slots=[SlotRecord(name="cpu-slot-0", compute_cpus=[0])],
        transfer_cpus=[1],
        jobs=[
            JobRecord(
                name=job.name,
                manifest=f"{job.name}.yaml",
                program_folder="/",
                workers=1,
                servers=1,
                iterations=job.iterations,
                state="Succeeded",
            )
            for job in jobs
        ],
        plans=[
            PlanRecord(
                generation=index + 1,
                at_ns=min(turns[group[0].job][0].start_ns for group in grouped[: index + 1]),
                why="the jobs arrived",
                groups=[
                    GroupRecord(
                        name=f"g-{index}",
                        slots=["cpu-slot-0"],
                        members=group,
                        prediction=prediction if mode == "shared" else None,
                    )
                ],
            )
            for index, group in enumerate(grouped)
        ],
    )
    record.write(folder)
    return folder


def write_comparison(folder: Path, jobs: tuple[JobShape, ...] = PAIR) -> Path:
    """Write a run folder for each mode."""
    for mode in ("dedicated", "naive", "shared"):
        write_run(folder / mode, jobs, mode)  # type: ignore[arg-type]
    return folder
