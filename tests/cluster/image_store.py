"""The images that every node has from its first moment.

They are imported once into one containerd folder in the cache. A node's folder is a copy of it
made of hard links: gigabytes in a moment. That is safe because containerd never writes to the
files of a layer or a blob again; only its databases are truly copied.
"""

import json
import shutil
import subprocess
import tarfile
from collections.abc import Iterable, Mapping
from pathlib import Path

from cluster import binaries, images
from cluster.binaries import CACHE, Say, lock
from cluster.processes import Process
from cluster.waiting import until

STORE = CACHE / "containerd"
# Written last and removed first: without it, the store is of no use.
IDS = STORE / "images.json"
BLOBS = Path("io.containerd.content.v1.content", "blobs", "sha256")
READY_SECONDS = 30.0
STOP_SECONDS = 30.0


def update(wanted: Mapping[str, str], say: Say = print) -> None:
    """Import the images `wanted`, ids by name, that are not there yet."""
    with lock("containerd"):
        known = json.loads(IDS.read_text()) if IDS.exists() else {}
        changed = [name for name, image_id in wanted.items() if known.get(name) != image_id]
        if not changed:
            return
        say(f"importing {', '.join(changed)} ...")
        if not known:
            _remove(STORE)
        IDS.unlink(missing_ok=True)
        containerd = _Containerd(STORE)
        try:
            for name in changed:
                containerd.import_image(name)
        finally:
            containerd.stop()
        IDS.write_text(json.dumps({**known, **wanted}))


def copy_to(destinations: Iterable[Path]) -> None:
    """Make each destination, in the file system of the cache, a containerd folder with all images.

    Raises `FileNotFoundError` when there is no complete store to copy.
    """
    with lock("containerd"):
        IDS.stat()
        for destination in destinations:
            _link(STORE, destination)
            for database in STORE.rglob("*.db"):
                copied = destination / database.relative_to(STORE)
                copied.unlink()
                shutil.copy2(database, copied)


def _link(source: Path, destination: Path) -> None:
    subprocess.run(["cp", "--archive", "--link", source, destination], check=True)


def _remove(folder: Path) -> None:
    subprocess.run(["rm", "--recursive", "--force", folder], check=True)


class _Containerd:
    """A containerd that only imports into `root`, in a mount namespace of its own."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._work = CACHE / "importing"
        _remove(self._work)
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
        containerd = binaries.path("containerd")
        self._process = Process(
            "containerd",
            ["unshare", "--mount", containerd, "--config", configuration],
            self._work / "containerd.log",
        )
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
        (layout / "blobs").mkdir(parents=True)
        if present:
            _link(self._root / BLOBS, layout / "blobs" / "sha256")
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
        _remove(layout)
        done = self._ctr("images", "import", "--local", str(archive))
        archive.unlink()
        if done.returncode != 0:
            raise RuntimeError(f"importing {name}: {done.stderr}\n{self._process.log_tail()}")

    def stop(self) -> None:
        self._process.stop(STOP_SECONDS)
        _remove(self._work)

    def _ctr(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        client = (binaries.path("ctr"), "--address", self._socket, "--namespace", "k8s.io")
        return subprocess.run([*client, *arguments], capture_output=True, text=True)
