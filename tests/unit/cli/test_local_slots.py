"""A CPU machine is divided so that computation and transfers keep out of each other's way."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_cli.local import slots
from harmony_cli.local.slots import cpu_list, divide_cpus, find_gpus


@given(
    cpus=st.sets(st.integers(0, 127), min_size=2, max_size=64).map(sorted),
    slot_count=st.integers(1, 40),
)
def test_computation_and_transfers_never_share_a_core_where_there_are_two(
    cpus: list[int], slot_count: int
) -> None:
    machine = divide_cpus(cpus, slot_count)
    compute = {cpu for slot in machine.slots for cpu in slot.compute_cpus}
    assert compute | set(machine.transfer_cpus) == set(cpus)
    assert not compute & set(machine.transfer_cpus)
    assert len(machine.slots) == slot_count
    assert all(slot.compute_cpus for slot in machine.slots)


@given(
    cpus=st.sets(st.integers(0, 127), min_size=8, max_size=64).map(sorted),
    slot_count=st.integers(1, 4),
)
def test_slots_share_no_core_where_there_are_enough(cpus: list[int], slot_count: int) -> None:
    machine = divide_cpus(cpus, slot_count)
    taken = [cpu for slot in machine.slots for cpu in slot.compute_cpus]
    assert len(taken) == len(set(taken))
    assert not machine.notes


def test_two_cores_give_one_to_computation_and_one_to_transfers() -> None:
    machine = divide_cpus([0, 1], 1)
    assert machine.slots[0].compute_cpus == (0,)
    assert machine.transfer_cpus == (1,)


def test_more_slots_than_cores_share_them_and_say_so() -> None:
    machine = divide_cpus([0, 1], 2)
    assert [slot.compute_cpus for slot in machine.slots] == [(0,), (0,)]
    assert "2 slots share 1 core(s)" in machine.notes[0]


def test_a_single_core_is_shared_by_everything_and_says_so() -> None:
    machine = divide_cpus([3], 1)
    assert machine.slots[0].compute_cpus == machine.transfer_cpus == (3,)
    assert "one core only" in machine.notes[0]


def test_no_slot_at_all_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        divide_cpus([0, 1], 0)


def test_cores_are_written_as_the_kernel_writes_them() -> None:
    assert cpu_list([3, 0, 2]) == "0,2-3"
    assert cpu_list([5]) == "5"


def test_a_driver_that_does_not_answer_is_no_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "_DRIVER", tmp_path)
    monkeypatch.setattr(slots, "_ASKING_SECONDS", 0.1)
    monkeypatch.setattr(slots, "_ASK_TORCH", "import time; time.sleep(600)")
    assert find_gpus() == ()
