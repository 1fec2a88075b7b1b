"""The slots of this machine: GPUs where torch sees CUDA, otherwise shares of its cores.

On a CPU machine computation and transfers must not fight for cores, or nothing is gained by
interleaving them: the last quarter of the cores (at least one) carries servers, sidecars and
the workers' transfer threads, the others are split among the compute slots.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class LocalSlot:
    """What one worker computes on; GPUs have a UUID, CPU shares have cores."""

    name: str
    device_kind: str
    compute_cpus: tuple[int, ...] = ()
    gpu_uuid: str | None = None
    memory_bytes: int | None = None


@dataclass(frozen=True)
class Machine:
    """The slots and the cores that all slots' transfers, servers and sidecars share."""

    slots: tuple[LocalSlot, ...]
    transfer_cpus: tuple[int, ...]
    notes: tuple[str, ...] = ()


_DRIVER = Path("/proc/driver/nvidia")
_ASKING_SECONDS = 120.0
_ASK_TORCH = """
import torch
for index in range(torch.cuda.device_count()):
    device = torch.cuda.get_device_properties(index)
    print(f"GPU-{device.uuid}|{device.name}|{device.total_memory}")
"""


def find_gpus() -> tuple[LocalSlot, ...]:
    """Ask torch, in a process of its own, which GPUs it can use; none without a live driver."""
    if not _DRIVER.exists():
        return ()
    ask = [sys.executable, "-c", _ASK_TORCH]
    try:
        answer = subprocess.run(ask, capture_output=True, text=True, timeout=_ASKING_SECONDS)
    except subprocess.TimeoutExpired:
        return ()
    slots: list[LocalSlot] = []
    for line in answer.stdout.splitlines():
        uuid, kind, memory_bytes = line.split("|")
        slots.append(
            LocalSlot(
                name=f"gpu-{len(slots)}",
                device_kind=kind,
                gpu_uuid=uuid,
                memory_bytes=int(memory_bytes),
            )
        )
    return tuple(slots)


def divide_cpus(cpus: Sequence[int], slot_count: int) -> Machine:
    """Split cores into `slot_count` compute shares and one share for transfers.

    Slots share cores where there are fewer cores than slots; the notes say so.
    """
    if slot_count < 1:
        raise ValueError(f"{slot_count} slots: at least one is needed")
    notes: tuple[str, ...] = ()
    if len(cpus) == 1:
        notes = ("one core only: computation and transfers share it, so expect little gain",)
        compute: Sequence[int] = cpus
        transfer: Sequence[int] = cpus
    else:
        transfer_count = max(1, len(cpus) // 4)
        compute, transfer = cpus[:-transfer_count], cpus[-transfer_count:]
    if slot_count > len(compute):
        notes += (f"{slot_count} slots share {len(compute)} core(s) for computation",)
    shares: list[list[int]] = [[] for _ in range(slot_count)]
    for position in range(max(slot_count, len(compute))):
        shares[position % slot_count].append(compute[position % len(compute)])
    slots = tuple(
        LocalSlot(name=f"cpu-slot-{index}", device_kind="cpu", compute_cpus=tuple(share))
        for index, share in enumerate(shares)
    )
    return Machine(slots=slots, transfer_cpus=tuple(transfer), notes=notes)


def find_machine(slot_count: int, *, want_gpus: bool) -> Machine:
    """The slots of this machine: its GPUs where wanted and usable, otherwise CPU shares."""
    cpus = sorted(os.sched_getaffinity(0))
    gpus = find_gpus() if want_gpus else ()
    if gpus:
        return Machine(slots=gpus, transfer_cpus=tuple(cpus))
    machine = divide_cpus(cpus, slot_count)
    if not want_gpus:
        return machine
    note = "no GPU that torch can use: every slot is a share of the CPU"
    return Machine(machine.slots, machine.transfer_cpus, (note, *machine.notes))


def cpu_list(cpus: Sequence[int]) -> str:
    """Write cores the way the kernel does: `0,2-3`."""
    ranges: list[list[int]] = []
    for cpu in sorted(cpus):
        if ranges and cpu == ranges[-1][1] + 1:
            ranges[-1][1] = cpu
        else:
            ranges.append([cpu, cpu])
    return ",".join(f"{low}" if low == high else f"{low}-{high}" for low, high in ranges)
