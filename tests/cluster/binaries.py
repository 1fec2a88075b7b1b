"""Where the programs of a test cluster come from.

Kubernetes and its companions are Go modules: the folders of `components/` pin them, and they are
built from source on first use, into a cache folder named after the hash of the pins. A program is
moved to its place only when it is complete. The rest are packages of Debian, installed when
missing.
"""

import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COMPONENTS = Path(__file__).parent / "components"
CACHE = Path(os.environ.get("HARMONY_TEST_CACHE", "~/.cache/harmony-test-cluster")).expanduser()

KUBERNETES_VERSION = "k8s.io/component-base/version"
BUILD_FLAGS = ("-trimpath", "-buildvcs=false")
BUILD_ENVIRONMENT = {"CGO_ENABLED": "0", "GOFLAGS": ""}

Say = Callable[[str], None]


class NotPossibleError(Exception):
    """A test cluster cannot run on this machine; the message says what to do about it."""


@dataclass(frozen=True)
class Program:
    """A Go program: the folder of `components/` that pins it, and its package."""

    module: str
    package: str


PROGRAMS = {
    **{
        name: Program("kubernetes", f"k8s.io/kubernetes/cmd/{name}")
        for name in (
            "kube-apiserver",
            "kube-controller-manager",
            "kubectl",
            "kube-scheduler",
            "kubelet",
            "kube-proxy",
        )
    },
    **{
        name: Program("containerd", f"github.com/containerd/containerd/v2/cmd/{name}")
        for name in ("containerd", "containerd-shim-runc-v2", "ctr")
    },
    "coredns": Program("coredns", "github.com/coredns/coredns"),
    "dra-example-kubeletplugin": Program(
        "dra-example-driver", "sigs.k8s.io/dra-example-driver/cmd/dra-example-kubeletplugin"
    ),
    "helm": Program("helm", "helm.sh/helm/v3/cmd/helm"),
    "init": Program("init", "."),
}

# Debian's package for each program that is not built here.
PACKAGES = {
    "etcd": "etcd-server",
    "openssl": "openssl",
    "runc": "runc",
    "ip": "iproute2",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "socat": "socat",
    "buildah": "buildah",
    "debootstrap": "debootstrap",
    "/usr/lib/cni/ptp": "containernetworking-plugins",
}

API_SERVER_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kubectl")
API_SERVER_TOOLS = ("etcd", "openssl")


def path(name: str) -> Path:
    """Return where a Go program lies, or will lie once `ensure` has built it."""
    return folder(PROGRAMS[name].module) / name


def folder(module: str) -> Path:
    """Return the cache folder of one module's programs: another pin is another folder."""
    digest = hashlib.sha256(repr((BUILD_FLAGS, BUILD_ENVIRONMENT)).encode())
    for source in sorted((COMPONENTS / module).iterdir()):
        digest.update(source.read_bytes())
    return CACHE / "programs" / f"{module}-{digest.hexdigest()[:16]}"


def ensure(
    programs: Iterable[str] = PROGRAMS, tools: Iterable[str] = PACKAGES, say: Say = print
) -> None:
    """Build the Go programs and install the packages that are missing, telling what is done.

    Raises `NotPossibleError` when something is missing and cannot be made here.
    """
    _install(tools, say)
    if missing := [name for name in programs if not path(name).exists()]:
        if shutil.which("go") is None:
            raise NotPossibleError(f"install Go 1.25 or later: {', '.join(missing)} must be built")
        with lock("programs"):
            for name in missing:
                if not path(name).exists():
                    _build(name, say)


def check_space(needed_bytes: int) -> None:
    """Raise `NotPossibleError` when the cache's file system has less room than `needed_bytes`.

    A full disk shows itself otherwise as pods that never start.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    free_bytes = shutil.disk_usage(CACHE).free
    if free_bytes < needed_bytes:
        raise NotPossibleError(
            f"make room: {CACHE} has {free_bytes / 1e9:.1f} GB left, {needed_bytes / 1e9:.0f} GB"
            " are needed"
        )


@contextmanager
def lock(name: str) -> Iterator[None]:
    """Let one process at a time make the things called `name` in the cache."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / f"{name}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _build(name: str, say: Say) -> None:
    program = PROGRAMS[name]
    module = COMPONENTS / program.module
    say(f"building {name} from source (once; minutes for Kubernetes) ...")
    began = time.monotonic()
    unfinished = path(name).with_suffix(".unfinished")
    unfinished.parent.mkdir(parents=True, exist_ok=True)
    linker_flags = " ".join(["-s", "-w", *_version_flags(module)])
    built = subprocess.run(
        ["go", "build", *BUILD_FLAGS, "-ldflags", linker_flags, "-o", unfinished, program.package],
        cwd=module,
        env={**os.environ, **BUILD_ENVIRONMENT},
        stderr=subprocess.PIPE,
    )
    if built.returncode != 0:
        raise RuntimeError(f"{name} does not build: {built.stderr.decode()[-2000:]}")
    unfinished.rename(path(name))
    say(f"built {name} in {time.monotonic() - began:.0f} s")


def _version_flags(module: Path) -> list[str]:
    """Return what tells Kubernetes its version; without it, clients see v0.0.0 and misjudge it."""
    pinned = re.search(r"k8s\.io/kubernetes v(\d+)\.(\d+)\.\d+", (module / "go.mod").read_text())
    if pinned is None:
        return []
    version, major, minor = pinned[0].split()[1], pinned[1], pinned[2]
    values = {"gitVersion": version, "gitMajor": major, "gitMinor": minor}
    return [f"-X {KUBERNETES_VERSION}.{name}={value}" for name, value in values.items()]


def _install(tools: Iterable[str], say: Say) -> None:
    packages = [PACKAGES[tool] for tool in tools if shutil.which(tool, path=_search_path()) is None]
    if not packages:
        return
    command = ["apt-get", "install", "--yes", "--no-install-recommends", *packages]
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NotPossibleError(f"as root, install with your package manager: {' '.join(packages)}")
    say(f"installing {' '.join(packages)} ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for step in (["apt-get", "update"], command):
        done = subprocess.run(step, env=environment, capture_output=True)
        if done.returncode != 0:
            raise RuntimeError(f"{' '.join(step)}: {done.stderr.decode()[-2000:]}")
    if "etcd-server" in packages and shutil.which("systemctl"):
        # Only the program is wanted, not the service that Debian starts.
        subprocess.run(["systemctl", "disable", "--now", "etcd"], capture_output=True)


def _search_path() -> str:
    return os.environ.get("PATH", os.defpath) + ":/usr/sbin:/sbin"
