"""The container images of a test cluster, built here from source.

`buildah` builds them without a daemon, from a base that `debootstrap` makes, and caches every
layer: torch, by far the largest, is installed once as long as `constraints.txt` stays.
"""

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from cluster import binaries
from cluster.binaries import CACHE, Say, lock

PROJECT = Path(__file__).parents[2]
SUITE = "bookworm"
DEBIAN_PACKAGES = "python3,python3-venv,ca-certificates"

# What runs on nodes besides Harmony: an image with one static program.
PROGRAM_IMAGES = {"pause": "init", "coredns": "coredns", "fake-gpus": "dra-example-kubeletplugin"}
HARMONY_IMAGES = ("operator", "sidecar", "worker")
# Everything that the nodes of a test cluster have; `python` is the base of Harmony's images.
ALL = ("python", *PROGRAM_IMAGES, *HARMONY_IMAGES)
# A full set has about fifty layers; older ones go when there are more, or when space is short.
KEPT_LAYERS = 150
SPACE_BYTES = 20_000_000_000
HARMONY_VERSION = "0.1.0"

# The builder's own configuration of package downloads, lent to the build and kept in no image.
LENT_FILES = ("/etc/pip.conf", "/etc/ssl/certs/ca-certificates.crt")


def reference(name: str) -> str:
    """Return the full name under which the nodes know an image.

    Harmony's own are those of the examples and of the chart's default values.
    """
    if name in HARMONY_IMAGES:
        return f"docker.io/harmony/{name}:{HARMONY_VERSION}"
    return f"localhost/harmony/{name}:test"


def build(names: Iterable[str], say: Say = print) -> dict[str, str]:
    """Build images, or find them built, and return the id of each by its name.

    `names` are among `ALL`.
    """
    with lock("images"):
        # Of builds that were killed.
        _buildah("rm", "--all")
        ids = {name: _build(name, say) for name in names}
        short = shutil.disk_usage(CACHE).free < SPACE_BYTES
        if short or len(_buildah("images", "--all", "--quiet").split()) > KEPT_LAYERS:
            say("removing layers of older images ...")
            _buildah("rmi", "--prune")
        return ids


def push(name: str, layout: Path) -> None:
    """Add an image to a folder in OCI's layout, without the blobs that are there already."""
    _buildah("push", "--quiet", "--disable-compression", reference(name), f"oci:{layout}:{name}")


def export(name: str, archive: Path) -> None:
    """Write an image to a file that container engines load."""
    _buildah("push", "--quiet", reference(name), f"docker-archive:{archive}:{reference(name)}")


def _build(name: str, say: Say) -> str:
    if name == "python":
        return _python_base(say)
    if name in PROGRAM_IMAGES:
        return _program_image(name)
    _python_base(say)
    say(f"building the image {name} ...")
    lent = [f"--volume={path}:{path}:ro" for path in LENT_FILES if Path(path).exists()]
    base = f"--build-arg=BASE_IMAGE={reference('python')}"
    return _bud(name, PROJECT, ["--layers", "--target", name, base, *lent])


def _program_image(name: str) -> str:
    program = binaries.path(PROGRAM_IMAGES[name])
    recipe = f'FROM scratch\nCOPY {program.name} /\nENTRYPOINT ["/{program.name}"]\n'
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy2(program, folder)
        (Path(folder) / "Dockerfile").write_text(recipe)
        return _bud(name, Path(folder), ["--layers", "--timestamp=0"])


def _python_base(say: Say) -> str:
    """Return Debian's smallest system with Python, made once."""
    key = hashlib.sha256(f"{SUITE} {DEBIAN_PACKAGES}".encode()).hexdigest()[:12]
    kept = f"localhost/harmony/debian:{key}"
    if not _image_id(kept):
        say("making the base image from Debian's packages (once) ...")
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "root"
            options = ["--variant=minbase", f"--include={DEBIAN_PACKAGES}"]
            _run(["debootstrap", *options, SUITE, str(root)])
            shutil.rmtree(root / "var/cache/apt/archives")
            container = _buildah("from", "scratch")
            _buildah("add", "--quiet", container, str(root), "/")
            _buildah("config", "--cmd", "python3", container)
            _buildah("commit", "--quiet", "--rm", container, kept)
    _buildah("tag", kept, reference("python"))
    return _image_id(kept)


def _bud(name: str, context: Path, options: Sequence[str]) -> str:
    tag = ["--tag", reference(name)]
    _buildah("build", "--quiet", "--isolation=chroot", "--format=oci", *options, *tag, str(context))
    return _image_id(reference(name))


def _image_id(name: str) -> str:
    return _buildah("images", "--quiet", "--no-trunc", "--filter", f"reference={name}")


def _buildah(*arguments: str) -> str:
    store = ("--root", f"{CACHE}/buildah", "--runroot", f"{CACHE}/buildah-run")
    # What it mounts ends with it, and it with this process.
    alone = ("unshare", "--mount") if os.geteuid() == 0 else ()
    tied = ("setpriv", "--pdeathsig", "KILL", *alone)
    return _run([*tied, "buildah", *store, "--storage-driver=overlay", *arguments])


def _run(command: Sequence[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()
