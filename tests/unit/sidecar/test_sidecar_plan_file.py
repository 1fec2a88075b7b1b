"""A plan's file as kubelet and the local runner write it."""

from pathlib import Path

import pytest
from sidecar_processes import plan_of

from harmony_api.node_plan import NodePlan
from harmony_sidecar.plan_file import PlanFile


def plan_text(generation: int) -> str:
    return NodePlan.model_validate(plan_of("a/0", generation=generation)).model_dump_json()


class DownwardApiVolume:
    """Swaps its files as kubelet does: a new folder, then one rename of a symbolic link."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._writes = 0
        self.file = folder / "node-plan"
        self.file.symlink_to("..data/node-plan")

    def write(self, text: str) -> None:
        data = self._folder / "..data"
        before = data.readlink() if data.is_symlink() else None
        self._writes += 1
        after = self._folder / f"..2026_11_30.{self._writes}"
        after.mkdir()
        (after / "node-plan").write_text(text)
        draft = self._folder / "..data_tmp"
        draft.symlink_to(after.name)
        draft.rename(data)
        if before is not None:
            (self._folder / before / "node-plan").unlink()
            (self._folder / before).rmdir()


def generation_of(plan: NodePlan | None) -> int | None:
    return plan.generation if plan else None


def test_a_swapped_volume_is_read_once_after_each_swap(tmp_path: Path) -> None:
    volume = DownwardApiVolume(tmp_path)
    plan_file = PlanFile(volume.file)
    for generation in range(1, 20):
        volume.write(plan_text(generation))
        assert generation_of(plan_file.changed()) == generation
        assert plan_file.changed() is None


def test_a_volume_without_content_yet_is_waited_for_in_silence(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    volume = DownwardApiVolume(tmp_path)
    plan_file = PlanFile(volume.file)
    assert plan_file.changed() is None
    volume.write("")
    assert plan_file.changed() is None
    volume.write(plan_text(1))
    assert generation_of(plan_file.changed()) == 1
    assert not caplog.records


def test_what_is_no_plan_changes_nothing_and_the_next_plan_counts(tmp_path: Path) -> None:
    volume = DownwardApiVolume(tmp_path)
    plan_file = PlanFile(volume.file)
    volume.write('{"group": "g"}')
    assert plan_file.changed() is None
    volume.write(plan_text(2))
    assert generation_of(plan_file.changed()) == 2
