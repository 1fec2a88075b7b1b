"""Where things are inside a job's pods and on its nodes.

The operator lays pods out, the chart's DaemonSet prepares the nodes, and sidecars, workers and
servers find what they need there.
"""

from typing import Final

SIDECAR_HTTP_PORT: Final = 9401
"""On the pod's address: `/healthz`, `/state`, `/profile`, `/events`, `/metrics`."""
SERVER_PORT: Final = 29500
"""On a parameter server's address."""
RESERVATION_HTTP_PORT: Final = 9402
"""On the address of a pod that reserves devices: `/devices`."""

RUN_FOLDER: Final = "/run/harmony"
"""emptyDir of a worker pod, in all its containers."""
WORKER_SOCKET: Final = f"{RUN_FOLDER}/worker.sock"

POD_INFO_FOLDER: Final = "/etc/harmony/pod"
"""Downward-API volume of the sidecar."""
NODE_PLAN_FILE: Final = f"{POD_INFO_FOLDER}/node-plan"

NODE_STORES_FOLDER: Final = "/var/lib/harmony"
"""On the host: the stores, each named as its node, for several nodes may share a machine."""
NODE_STORE_MOUNT: Final = "/var/lib/harmony/store"
"""In the sidecar, and in no other container."""
ELECTION_FOLDER: Final = "election"
"""In a node's store: shared by all sidecars of the node."""
JOBS_FOLDER: Final = "jobs"
"""In a node's store: each job makes a folder of its own in it."""
EXAMPLES_FOLDER: Final = "/opt/harmony/examples"
"""In the worker image: the example programs."""
HARMONY_GROUP: Final = 64321
"""Supplemental group of every sidecar; the election folder belongs to it."""
