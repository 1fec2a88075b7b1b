"""How the programs of a node are configured: plain values, no files are touched here."""

import os
from pathlib import Path
from typing import Any

from cluster import images
from cluster.network import NodeAddress
from cluster.pki import KeyPair

CONTAINERD_SOCKET = "/run/containerd/containerd.sock"
CLUSTER_DNS = "10.96.0.10"

Json = dict[str, Any]


def pod_network(at: NodeAddress) -> Json:
    """Return the container network: pods are linked to the node, which routes."""
    addresses = {
        "type": "host-local",
        "dataDir": "/run/pod-addresses",
        "ranges": [[{"subnet": at.pod_network}]],
        "routes": [{"dst": "0.0.0.0/0"}],
    }
    links = {"type": "ptp", "ipMasq": False, "ipam": addresses}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}, "snat": True}
    return {"cniVersion": "1.0.0", "name": "pods", "plugins": [links, ports]}


def containerd(network_folder: Path) -> str:
    """Return containerd's configuration file; `network_folder` holds the container network's."""
    return f"""
version = 3
[grpc]
address = "{CONTAINERD_SOCKET}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "{images.reference("pause")}"
[plugins.'io.containerd.cri.v1.runtime']
enable_cdi = true
cdi_spec_dirs = ["/run/cdi"]
# A machine that may not lower it for others starts no sandbox otherwise.
restrict_oom_score_adj = true
disable_hugetlb_controller = true
tolerate_missing_hugetlb_controller = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["/usr/lib/cni"]
conf_dir = "{network_folder}"
"""


def kubelet(cgroup: str, authority: Path, serving: KeyPair, nameservers: Path) -> Json:
    """Return the kubelet's configuration.

    `cgroup` holds the pods, `authority` is the certificate that signs the API server's, and
    `nameservers` is what pods with the node's own DNS see.
    """
    return {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(authority)},
        },
        "authorization": {"mode": "Webhook"},
        "tlsCertFile": str(serving.certificate),
        "tlsPrivateKeyFile": str(serving.key),
        "containerRuntimeEndpoint": f"unix://{CONTAINERD_SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{cgroup}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "oomScoreAdj": 0,
        "resolvConf": str(nameservers),
        "clusterDomain": "cluster.local",
        "clusterDNS": [CLUSTER_DNS],
        # Every node sees the whole machine: it offers half of its memory, and keeps its images.
        "systemReserved": {"memory": str(_memory_bytes() // 2)},
        "evictionHard": {"memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        # What happens to a node is known within seconds.
        "nodeStatusUpdateFrequency": "2s",
        "nodeLeaseDurationSeconds": 4,
        "syncFrequency": "10s",
    }


def kube_proxy(at: NodeAddress, kubeconfig: Path) -> Json:
    """Return the configuration of the proxy of services; this machine's limits stay as they are."""
    return {
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "mode": "iptables",
        "hostnameOverride": at.name,
        "clientConnection": {"kubeconfig": str(kubeconfig)},
        "conntrack": {
            "maxPerCore": 0,
            "tcpEstablishedTimeout": "0s",
            "tcpCloseWaitTimeout": "0s",
        },
    }


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
