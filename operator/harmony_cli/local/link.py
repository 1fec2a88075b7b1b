"""A link of known bandwidth between workers and servers on one machine, for measuring.

Two network namespaces joined by a veth pair that the kernel shapes at both ends, so each
direction has the whole bandwidth. Only workers and servers live in them: sidecars are reached
over Unix sockets, which network namespaces do not divide, and over HTTP from the runner's.

The settings make the link carry its nominal bandwidth and nothing else of its own: jumbo
frames and a burst of one full segmentation buffer keep the kernel's work small, the burst is
so short that idling gains nothing, and the queue is long enough never to drop. Reno is the
congestion control that every kernel allows in a namespace, and without loss it just fills the
link, where BBR would stop now and then to measure the round trip. A socket may have little in
the queue at a time: acknowledgements share it with the other direction's data, and behind
megabytes of it they would slow a PULL whenever a PUSH goes the other way.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from harmony_cli.local import guardian

_INTERFACE: Final = "harmony0"
_MTU_BYTES: Final = 9000
_SMALLEST_BURST_BYTES: Final = 64 * 1024
_BURST_SECONDS: Final = 0.0004
_QUEUE_BYTES: Final = 32 * 1024 * 1024
_KERNEL_SETTINGS: Final = {
    "tcp_congestion_control": "reno",
    "tcp_slow_start_after_idle": "0",
    "tcp_limit_output_bytes": "131072",
}


class LinkError(Exception):
    """The shaped link cannot be made here; the message says what is missing."""


@dataclass(frozen=True)
class Link:
    """Both ends of the link: network namespaces as `ip netns` names them, and addresses."""

    megabits_per_second: int
    worker_namespace: str
    server_namespace: str
    worker_address: str = "10.77.0.1"
    server_address: str = "10.77.0.2"


@contextmanager
def shaped_link(megabits_per_second: int, run: str) -> Iterator[Link]:
    """Make the link, and remove it afterwards (the run's guardian does after a crash).

    `run` is the id of the ProcessHost whose processes will use it. Raises LinkError without
    root, or where iproute2 or the kernel's token bucket filter is missing.
    """
    if os.geteuid() != 0:
        raise LinkError("a shaped link needs root (network namespaces); run without it, or as root")
    prefix = guardian.namespace_prefix(run)
    link = Link(megabits_per_second, prefix + "workers", prefix + "servers")
    ends = {
        link.worker_namespace: link.worker_address,
        link.server_namespace: link.server_address,
    }
    try:
        for namespace in ends:
            _execute("ip", "netns", "add", namespace)
        first, second = ends
        pair = ["type", "veth", "peer", "name", _INTERFACE, "netns", second]
        _execute("ip", "-n", first, "link", "add", "name", _INTERFACE, *pair)
        for namespace, address in ends.items():
            _set_up(namespace, address, megabits_per_second)
        yield link
    finally:
        guardian.remove_namespaces(run)


def _set_up(namespace: str, address: str, megabits_per_second: int) -> None:
    for name, value in _KERNEL_SETTINGS.items():
        setting = f"echo {value} > /proc/sys/net/ipv4/{name}"
        _execute("ip", "netns", "exec", namespace, "sh", "-c", setting)
    ip = ["ip", "-n", namespace]
    _execute(*ip, "link", "set", "lo", "up")
    _execute(*ip, "link", "set", _INTERFACE, "mtu", str(_MTU_BYTES), "up")
    _execute(*ip, "address", "add", f"{address}/30", "dev", _INTERFACE)
    burst = max(_SMALLEST_BURST_BYTES, int(megabits_per_second * 1e6 / 8 * _BURST_SECONDS))
    shape = ["tbf", "rate", f"{megabits_per_second}mbit"]
    shape += ["burst", str(burst), "limit", str(_QUEUE_BYTES)]
    _execute("tc", "-n", namespace, "qdisc", "add", "dev", _INTERFACE, "root", *shape)


def _execute(*command: str) -> None:
    try:
        result = subprocess.run(command, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise LinkError(f"a shaped link needs `{command[0]}` (iproute2)") from error
    if result.returncode != 0:
        raise LinkError(f"`{' '.join(command)}` failed: {result.stderr.strip()}")
