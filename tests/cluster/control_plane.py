"""etcd, the API server and its controllers.

A control plane runs wherever a `Place` says: on the loopback of this machine as any user, or in a
network namespace of its own. Its state lives in one folder, and on disk only as far as a restart
needs it.
"""

import random
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cluster import binaries
from cluster.api_server import ApiServer
from cluster.pki import Authority, User, signing_key, token_file
from cluster.processes import Process
from cluster.waiting import until

ETCD_SECONDS = 30.0
SERVICE_NETWORK = "10.96.0.0/16"
API_SERVER_NAMES = (
    "IP:127.0.0.1",
    "IP:10.96.0.1",
    "DNS:localhost",
    "DNS:kubernetes",
    "DNS:kubernetes.default",
    "DNS:kubernetes.default.svc",
    "DNS:kubernetes.default.svc.cluster.local",
)

ADMIN = User("admin", ("system:masters",))
CONTROLLER_MANAGER = User("system:kube-controller-manager")
SCHEDULER = User("system:kube-scheduler")

# Without nodes that report, the controllers that look after nodes would delete a test's pods.
CONTROLLERS_WITHOUT_NODES = (
    "garbage-collector-controller",
    "namespace-controller",
    "resourceclaim-controller",
    "serviceaccount-controller",
)

UNCLAIMED_PORTS = range(15_000, 30_000)


@dataclass(frozen=True)
class Place:
    """Where a control plane runs and how it is reached.

    `enter` is the command that runs a program there, `address` the one that nodes use. The tests
    reach the API server at `port_outside` of the loopback.
    """

    address: str = "127.0.0.1"
    port: int = 6443
    port_outside: int = 6443
    etcd_port: int = 2379
    etcd_peer_port: int = 2380
    controller_manager_port: int = 10257
    enter: tuple[str | Path, ...] = ()

    @classmethod
    def on_loopback(cls) -> "Place":
        """Choose ports of the loopback that nobody uses now."""
        api_server, etcd, peers, controllers = free_ports(4)
        return cls(
            port=api_server,
            port_outside=api_server,
            etcd_port=etcd,
            etcd_peer_port=peers,
            controller_manager_port=controllers,
        )


class ControlPlane:
    """An API server with what it rests on and the controllers asked for."""

    def __init__(
        self,
        folder: Path,
        place: Place,
        authority: Authority,
        *,
        users: Sequence[User] = (),
        controllers: Sequence[str] = ("*",),
        scheduler: bool = False,
    ) -> None:
        self._folder = folder
        self._place = place
        self._authority = authority
        self._controllers = controllers
        self._scheduler = scheduler
        self._processes: list[Process] = []
        self._service_account_key = signing_key(folder / "service-accounts.key")
        users = (ADMIN, CONTROLLER_MANAGER, SCHEDULER, *users)
        url = f"https://127.0.0.1:{place.port_outside}"
        self.api_server = ApiServer(
            self._api_server_command(token_file(folder / "tokens.csv", users)),
            log=folder / "log" / "kube-apiserver.log",
            url=url,
            kubeconfig=authority.kubeconfig(folder / "kubeconfig", server=url, user=ADMIN),
            certificate_authority=authority.certificate,
            token=ADMIN.token,
        )

    def start(self) -> None:
        """Start everything; the API server is ready on return."""
        etcd = self._start("etcd", self._etcd_command())
        until(
            lambda: b"ready to serve client requests" in etcd.log.read_bytes() or not etcd.alive,
            seconds=ETCD_SECONDS,
            what="etcd serves",
            details=etcd.log_tail,
        )
        self.api_server.start()
        self._start("kube-controller-manager", self._controller_manager_command())
        if self._scheduler:
            self._start("kube-scheduler", self._scheduler_command())

    def stop(self) -> None:
        """End everything at once: what it stored goes with it."""
        for process in self._processes:
            process.kill()
        self.api_server.kill()

    def _start(self, name: str, command: Sequence[str | Path]) -> Process:
        process = Process(name, command, self._folder / "log" / f"{name}.log")
        self._processes.append(process)
        return process

    def _etcd_command(self) -> list[str | Path]:
        clients = f"http://127.0.0.1:{self._place.etcd_port}"
        peers = f"http://127.0.0.1:{self._place.etcd_peer_port}"
        return [
            *self._place.enter,
            "etcd",
            f"--data-dir={self._folder / 'etcd'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={clients}",
            f"--advertise-client-urls={clients}",
            f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}",
            f"--initial-cluster=default={peers}",
        ]

    def _api_server_command(self, tokens: Path) -> list[str | Path]:
        place, authority = self._place, self._authority
        names = {*API_SERVER_NAMES, f"IP:{place.address}"}
        serving = authority.issue("api-server", subject="/CN=kube-apiserver", alternatives=names)
        to_kubelets = authority.issue("to-kubelets", subject="/O=system:masters/CN=kube-apiserver")
        on_loopback = place.address.startswith("127.")
        return [
            *place.enter,
            binaries.path("kube-apiserver"),
            f"--etcd-servers=http://127.0.0.1:{place.etcd_port}",
            f"--bind-address={'127.0.0.1' if on_loopback else '0.0.0.0'}",
            f"--secure-port={place.port}",
            f"--advertise-address={place.address}",
            f"--endpoint-reconciler-type={'none' if on_loopback else 'lease'}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={authority.certificate}",
            f"--token-auth-file={tokens}",
            f"--service-account-key-file={self._service_account_key}",
            f"--service-account-signing-key-file={self._service_account_key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--allow-privileged=true",
            # A lost node's pods are given up after half a minute, not after five.
            "--default-not-ready-toleration-seconds=30",
            "--default-unreachable-toleration-seconds=30",
            # Webhooks are called by their pods' addresses: no kube-proxy runs here.
            "--enable-aggregator-routing=true",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            f"--kubelet-certificate-authority={authority.certificate}",
            "--kubelet-preferred-address-types=InternalIP",
        ]

    def _controller_manager_command(self) -> list[str | Path]:
        return [
            *self._place.enter,
            binaries.path("kube-controller-manager"),
            f"--kubeconfig={self._kubeconfig(CONTROLLER_MANAGER)}",
            f"--controllers={','.join(self._controllers)}",
            f"--root-ca-file={self._authority.certificate}",
            f"--service-account-private-key-file={self._service_account_key}",
            "--use-service-account-credentials=true",
            "--allocate-node-cidrs=false",
            "--leader-elect=false",
            # A lost node is noticed in seconds instead of most of a minute.
            "--node-monitor-grace-period=10s",
            "--node-monitor-period=1s",
            "--bind-address=127.0.0.1",
            f"--secure-port={self._place.controller_manager_port}",
        ]

    def _scheduler_command(self) -> list[str | Path]:
        return [
            *self._place.enter,
            binaries.path("kube-scheduler"),
            f"--kubeconfig={self._kubeconfig(SCHEDULER)}",
            "--leader-elect=false",
            "--bind-address=127.0.0.1",
        ]

    def _kubeconfig(self, user: User) -> Path:
        server = f"https://127.0.0.1:{self._place.port}"
        name = user.name.removeprefix("system:")
        return self._authority.kubeconfig(self._folder / name, server=server, user=user)


def free_ports(count: int) -> list[int]:
    """Find ports of the loopback that nobody listens on now.

    They lie below those that this machine hands out by itself, so that no outgoing connection
    takes one before its owner listens.
    """
    ports: list[int] = []
    while len(ports) < count:
        port = random.choice(UNCLAIMED_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in ports:
            ports.append(port)
    return ports
