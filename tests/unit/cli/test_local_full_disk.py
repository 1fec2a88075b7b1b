"""A full disk costs records and snapshots, never the training."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from local_run_harness import harmony_run, manifest

pytestmark = [pytest.mark.training, pytest.mark.root]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("mounting a small file system needs root")
    folder = tmp_path / "run"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=600k", "harmony-test", str(folder)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_run_on_a_full_disk_trains_to_its_end_and_says_what_it_could_not_keep(
    small_disk: Path, tmp_path: Path
) -> None:
    job = manifest("cramped", iterations=250)
    with harmony_run(tmp_path, job) as run:
        run.until_iteration("cramped", 5)
        with (small_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
            while ballast.write(bytes(4096)):
                pass
        assert run.finish() == 0, run.output()
        assert "No space left on device" in run.output()
        assert "cramped: Succeeded, 250/250" in run.output()
    assert sum(file.stat().st_size for file in small_disk.rglob("*") if file.is_file()) > 400_000
