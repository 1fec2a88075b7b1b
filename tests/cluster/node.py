"""A node of a native cluster: a set of namespaces with a container runtime and a kubelet in them.

Everything a node writes to lies at its default path, private to the node: `/run`, `/var/lib` and
`/var/log` are mounts of its own, so that charts made for real nodes fit, and nothing is left on
this machine. Its first process ends all others when it ends: that is how the power goes off.
"""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from cluster import binaries, cgroups, node_configuration
from cluster.janitor import remove
from cluster.network import CONTROL_PLANE_ADDRESS, NodeAddress
from cluster.node_configuration import CONTAINERD_SOCKET
from cluster.pki import Authority, User
from cluster.processes import Process
from cluster.waiting import until

PROXY = User("system:kube-proxy")
API_SERVER = f"https://{CONTROL_PLANE_ADDRESS}:6443"
NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
# What a kubelet wants of the kernel. It finds it here, and leaves this machine's kernel alone.
KERNEL_SETTINGS = {"vm/overcommit_memory": 1, "kernel/panic": 10, "kernel/panic_on_oops": 1}
FOLDERS = ("cni", "kernel", "var-log", "var-lib/cdi", "var-lib/cni", "var-lib/kubelet")
SECONDS = 30.0


class Node:
    """One node, off until `boot`; its disks in `folder` outlive its power."""

    def __init__(self, at: NodeAddress, folder: Path, cgroup: str, authority: Authority) -> None:
        """Write down the node's identity and configuration; nothing runs yet."""
        self.at = at
        self.user = User(f"system:node:{at.name}", ("system:nodes",))
        self.containerd_root = folder / "var-lib" / "containerd"
        self._folder = folder
        self._cgroup = cgroup
        self._processes: dict[str, Process] = {}
        self._pid = 0
        self._configure(authority)

    def boot(self) -> int:
        """Make the namespaces and mounts; return the id of the node's first process.

        Next comes the network, and then `start_services`.
        """
        cgroups.make(self._cgroup)
        own_filesystems = ("--mount-proc", "--propagation", "private")
        unshare = ("unshare", *NAMESPACES, "--fork", "--kill-child", *own_filesystems)
        power = self._start("power", [*unshare, binaries.path("init")])
        pid = until(lambda: _init_below(power.pid), seconds=SECONDS, what="a first process")
        self._pid = pid
        for line in (
            f"hostname {self.at.name}",
            "mount -t tmpfs -o mode=755 tmpfs /run",
            f"mount --bind {self._folder}/var-lib /var/lib",
            f"mount --bind {self._folder}/var-log /var/log",
            "mount --make-rshared /var/lib",
            # The driver of devices counts on what it wrote there when the power comes back.
            "mkdir /run/cdi",
            "mount --bind /var/lib/cdi /run/cdi",
            *(
                f"mount --bind {self._folder}/kernel/{Path(name).name} /proc/sys/{name}"
                for name in KERNEL_SETTINGS
            ),
        ):
            self.run(*line.split())
        return pid

    def start_services(self) -> None:
        """Start the container runtime, the kubelet and the proxy of services."""
        self.start_containerd()
        self.start_kubelet()
        configuration = self._folder / "kube-proxy.json"
        self._start_inside("kube-proxy", [binaries.path("kube-proxy"), "--config", configuration])

    def start_containerd(self) -> None:
        """Start the container runtime and wait until it answers."""
        search = f"{binaries.folder('containerd')}:{os.environ['PATH']}:/usr/sbin"
        program, configuration = binaries.path("containerd"), self._folder / "containerd.toml"
        containerd = self._start_inside(
            "containerd", ["env", f"PATH={search}", program, "--config", configuration]
        )
        ctr = (str(binaries.path("ctr")), "--address", CONTAINERD_SOCKET, "version")
        until(
            lambda: subprocess.run([*self._enter(), *ctr], capture_output=True).returncode == 0,
            seconds=SECONDS,
            what="containerd answers",
            details=containerd.log_tail,
        )

    def start_kubelet(self) -> None:
        """Start the kubelet; the node is ready some time later."""
        self._start_inside(
            "kubelet",
            [
                binaries.path("kubelet"),
                f"--config={self._folder / 'kubelet.json'}",
                f"--kubeconfig={self._folder / 'kubelet.kubeconfig'}",
                f"--hostname-override={self.at.name}",
                f"--node-ip={self.at.address}",
            ],
        )

    def kill(self, service: str) -> None:
        """End `kubelet`, `containerd` or `kube-proxy` at once; pods go on."""
        self._processes[service].kill()

    def power_off(self) -> None:
        """End everything on the node at once, and remove its control groups."""
        for process in self._processes.values():
            process.kill()
        until(lambda: _ended(self._pid), seconds=SECONDS, what="the node's end")
        for group in cgroups.paths(self._cgroup):
            remove(group)

    def run(self, *command: str) -> str:
        """Run a program on the node and return what it printed."""
        done = subprocess.run([*self._enter(), *command], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{self.at.name}: {' '.join(command)}: {done.stderr}")
        return done.stdout

    def _enter(self) -> list[str]:
        return ["nsenter", f"--target={self._pid}", *NAMESPACES, "--"]

    def _start_inside(self, service: str, command: Sequence[str | Path]) -> Process:
        return self._start(service, [*self._enter(), *command])

    def _start(self, service: str, command: Sequence[str | Path]) -> Process:
        log = self._folder / "log" / f"{service}.log"
        self._processes[service] = Process(f"{self.at.name}-{service}", command, log)
        return self._processes[service]

    def _configure(self, authority: Authority) -> None:
        folder, name = self._folder, self.at.name
        network = folder / "cni"
        for path in FOLDERS:
            (folder / path).mkdir(parents=True)
        for setting, value in KERNEL_SETTINGS.items():
            (folder / "kernel" / Path(setting).name).write_text(f"{value}\n")
        nameservers = folder / "resolv.conf"
        nameservers.write_text("nameserver 127.0.0.1\n")
        serving = authority.issue(
            f"kubelet-{name}",
            subject=f"/O=system:nodes/CN={self.user.name}",
            alternatives=[f"DNS:{name}", f"IP:{self.at.address}"],
        )
        for path, user in (("kubelet.kubeconfig", self.user), ("kube-proxy.kubeconfig", PROXY)):
            authority.kubeconfig(folder / path, server=API_SERVER, user=user)
        kubelet = node_configuration.kubelet(
            self._cgroup, authority.certificate, serving, nameservers
        )
        proxy = node_configuration.kube_proxy(self.at, folder / "kube-proxy.kubeconfig")
        pods = node_configuration.pod_network(self.at)
        (folder / "containerd.toml").write_text(node_configuration.containerd(network))
        (folder / "kubelet.json").write_text(json.dumps(kubelet))
        (folder / "kube-proxy.json").write_text(json.dumps(proxy))
        (network / "10-pods.conflist").write_text(json.dumps(pods))


def _init_below(pid: int) -> int:
    """Return the child of a process once it is the node's first program, else 0."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    if children and Path(f"/proc/{children[0]}/comm").read_text() == "init\n":
        return int(children[0])
    return 0


def _ended(pid: int) -> bool:
    """Whether a process has ended, be it that nobody has asked for its exit status yet."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state in "ZX"
