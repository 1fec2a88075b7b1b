"""The images that every node has from its first moment.

They are imported once into one containerd folder in the cache. A node's folder is a copy of it
made of hard links: gigabytes in a moment. That is safe because containerd never writes to the
files of a layer or a blob again; only its databases are truly copied.
"""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

from cluster import binaries, images
from cluster.binaries import CACHE, Say, lock
from cluster.processes import Process
from cluster.waiting import until

STORE = CACHE / "containerd"
BLOBS = Path("io.containerd.content.v1.content", "blobs", "sha256")
READY_SECONDS = 30.0
STOP_SECONDS = 30.0


def copy_to(destination: Path, wanted: Mapping[str, str], say: Say = print) -> None:
    """Make `destination` a containerd folder that has the images `wanted`, ids by name.

    It must lie in the file system of the cache.
    """
    with lock("containerd"):
        known = _known()
        if changed := [name for name, image_id in wanted.items() if known.get(name) != image_id]:
            say(f"importing {', '.join(changed)} ...")
            _import(changed, {**known, **wanted})
        _link(STORE, destination)


def _known() -> dict[str, str]:
    ids = STORE / "images.json"
    return json.loads(ids.read_text()) if ids.exists() else {}


def _import(names: list[str], ids: Mapping[str, str]) -> None:
    """Put a store that also has `names` in the place of the old one."""
    unfinished, old = STORE.with_suffix(".unfinished"), STORE.with_suffix(".old")
    for leftover in (unfinished, old):
        shutil.rmtree(leftover, ignore_errors=True)
    if STORE.exists():
        _link(STORE, unfinished)
    containerd = _Containerd(unfinished)
    try:
        for name in names:
            containerd.import_image(name)
    finally:
        containerd.stop()
    (unfinished / "images.json").unlink(missing_ok=True)
    (unfinished / "images.json").write_text(json.dumps(ids))
    if STORE.exists():
        STORE.rename(old)
    unfinished.rename(STORE)
    shutil.rmtree(old, ignore_errors=True)


def _link(source: Path, destination: Path) -> None:
    subprocess.run(["cp", "--archive", "--link", source, destination], check=True)
    for database in source.rglob("*.db"):
        copied = destination / database.relative_to(source)
        copied.unlink()
        shutil.copy2(database, copied)


class _Containerd:
    """A containerd that only imports into `root`, in a mount namespace of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._work = CACHE / "importing"
        shutil.rmtree(self._work, ignore_errors=True)
        self._work.mkdir(parents=True)
        self._socket = self._work / "containerd.sock"
        configuration = self._work / "config.toml"
        configuration.write_text(
            f"""
version = 3
root = "{root}"
state = "{self._work}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{self._socket}"
[ttrpc]
address = "{self._socket}.ttrpc"
"""
        )
        command = ["unshare", "--mount", binaries.path("containerd"), "--config", configuration]
        self._process = Process("containerd", command, self._work / "containerd.log")
        until(
            lambda: self._socket.exists() and self._ctr("version").returncode == 0,
            seconds=READY_SECONDS,
            what="containerd answers",
            details=self._process.log_tail,
        )

    def import_image(self, name: str) -> None:
        """Import one image, reading only the blobs that are not there."""
        layout = self._work / name
        present = {blob.name for blob in (self._root / BLOBS).glob("*")}
        subprocess.run(["mkdir", "--parents", layout / "blobs"], check=True)
        if present:
            blobs = layout / "blobs" / "sha256"
            subprocess.run(["cp", "--archive", "--link", self._root / BLOBS, blobs], check=True)
        images.push(name, layout)
        index = json.loads((layout / "index.json").read_text())
        for manifest in index["manifests"]:
            manifest["annotations"] = {"io.containerd.image.name": images.reference(name)}
        (layout / "index.json").write_text(json.dumps(index))
        archive = self._work / f"{name}.tar"
        with tarfile.open(archive, "w") as tar:
            for file in ("oci-layout", "index.json"):
                tar.add(layout / file, file)
            for blob in (layout / "blobs" / "sha256").iterdir():
                if blob.name not in present:
                    tar.add(blob, blob.relative_to(layout))
        shutil.rmtree(layout)
        done = self._ctr("images", "import", "--local", str(archive))
        archive.unlink()
        if done.returncode != 0:
            raise RuntimeError(f"importing {name}: {done.stderr}\n{self._process.log_tail()}")

    def stop(self) -> None:
        self._process.stop(STOP_SECONDS)
        shutil.rmtree(self._work)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        ctr = [binaries.path("ctr"), "--address", self._socket, "--namespace", "k8s.io"]
        return subprocess.run([*ctr, *arguments], capture_output=True, text=True)
