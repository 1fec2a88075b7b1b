"""The network of a native cluster: a bridge that no other network of this machine touches.

The control plane has a network namespace of its own, with a bridge in it; every node is at the
other end of a pair of virtual links. Routes are static and nothing is translated, so pods have
one address everywhere. The namespace ends with the process that holds it. From outside, only a
port of the loopback leads to the API server.
"""

import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import binaries
from cluster.processes import Process
from cluster.waiting import until

BRIDGE = "lan"
CONTROL_PLANE_ADDRESS = "172.31.0.1"
POD_NETWORK = "10.88.0.0/16"
START_SECONDS = 10.0


@dataclass(frozen=True)
class NodeAddress:
    """What tells nodes apart; `number` counts from 1."""

    name: str
    number: int

    @property
    def address(self) -> str:
        """The node's own address on the bridge."""
        return f"172.31.0.{10 + self.number}"

    @property
    def pod_network(self) -> str:
        """The addresses of the pods on it."""
        return f"10.88.{self.number}.0/24"

    @property
    def link(self) -> str:
        """The bridge's end of the node's link."""
        return f"to-{self.name}"


class Network:
    """The bridge, and the namespace it lies in."""

    def __init__(self, log_folder: Path) -> None:
        """Make the namespace and the bridge."""
        self._log_folder = log_folder
        init = binaries.path("init")
        self._holder = Process("network", ["unshare", "--net", init], log_folder / "network.log")
        own = Path("/proc/self/ns/net").readlink()
        namespace = Path(f"/proc/{self._holder.pid}/ns/net")
        until(lambda: namespace.readlink() != own, seconds=START_SECONDS, what="a namespace")
        self.enter = ("nsenter", f"--net={namespace}")
        self._run("link", "set", "lo", "up")
        self._run("link", "add", BRIDGE, "type", "bridge")
        self._run("address", "add", f"{CONTROL_PLANE_ADDRESS}/24", "dev", BRIDGE)
        self._run("link", "set", BRIDGE, "up")
        self._forward: Process | None = None

    def attach(self, node: NodeAddress, pid: int, others: Sequence[NodeAddress]) -> None:
        """Link the network namespace of process `pid`, as `node`, to the bridge.

        The other nodes' pods and the control plane are then reachable from it, and its own from
        there.
        """
        self._run(
            "link", "add", node.link, "type", "veth", "peer", "name", "eth0", "netns", str(pid)
        )
        self._run("link", "set", node.link, "master", BRIDGE, "up")
        self._run("route", "replace", node.pod_network, "via", node.address)
        inside = ("nsenter", f"--net=/proc/{pid}/ns/net")
        for command in (
            "ip link set lo up",
            f"ip address add {node.address}/24 dev eth0",
            "ip link set eth0 up",
            f"ip route add default via {CONTROL_PLANE_ADDRESS}",
            *(f"ip route add {other.pod_network} via {other.address}" for other in others),
            "sysctl --quiet --write net.ipv4.ip_forward=1 net.ipv4.conf.all.rp_filter=0",
        ):
            _check([*inside, *command.split()])

    def detach(self, node: NodeAddress) -> None:
        """Remove the link of a node that ended."""
        subprocess.run([*self.enter, "ip", "link", "delete", node.link], capture_output=True)

    def set_link(self, node: NodeAddress, *, up: bool) -> None:
        """Cut a running node off, or mend its link."""
        self._run("link", "set", node.link, "up" if up else "down")

    def forward(self, port: int, from_socket: socket.socket) -> None:
        """Lead connections to a listening socket of this machine to `port` of the control plane."""
        program = Path(__file__).parent / "forward.py"
        self._forward = Process(
            "forward",
            [*self.enter, sys.executable, program, str(from_socket.fileno()), str(port)],
            self._log_folder / "forward.log",
            pass_fds=[from_socket.fileno()],
        )

    def stop(self) -> None:
        """End the namespace."""
        if self._forward is not None:
            self._forward.kill()
        self._holder.kill()

    def _run(self, *arguments: str) -> None:
        _check([*self.enter, "ip", *arguments])


def _check(command: Sequence[str]) -> None:
    subprocess.run(command, check=True, capture_output=True)
