"""Nodes that are kept for pods with GPUs by a taint of the resource's name run such jobs only."""

from dataclasses import replace

import pytest

from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.observed import ClusterState, ObservedNode, Taint
from harmony_operator.planning.capacity import pools
from operator_values import SETTINGS, group, job, member, slot

KEPT = ObservedNode(
    name="node-a",
    ready=True,
    schedulable=True,
    taints=frozenset({Taint("nvidia.com/gpu")}),
    allocatable={"nvidia.com/gpu": 2},
)
TOLERATED = {"key": "nvidia.com/gpu", "operator": "Exists"}


@pytest.mark.parametrize(
    ("node", "open_kinds"),
    [
        (KEPT, ["cpu", "gpu"]),
        (replace(KEPT, taints=frozenset()), ["cpu", "gpu"]),
        (replace(KEPT, taints=frozenset({Taint("node.kubernetes.io/disk-pressure")})), []),
        (replace(KEPT, schedulable=False), []),
    ],
    ids=["kept for GPUs", "open", "in trouble", "cordoned"],
)
def test_a_node_offers_what_pods_that_tolerate_its_taints_could_use(
    node: ObservedNode, open_kinds: list[str]
) -> None:
    state = ClusterState(now_seconds=0, nodes={node.name: node})
    offered = pools(state, SETTINGS, "reservation", {})
    assert [pool.device_kind for pool in offered if pool.closed is None] == open_kinds


@pytest.mark.parametrize("gpus", [0, 1])
def test_workers_with_gpus_tolerate_the_taint_and_others_do_not(gpus: int) -> None:
    of = job(workers={"gpusPerWorker": gpus})
    binding = SlotBinding(slot="s", node="node-a", devices=("GPU-1",), visible_devices="GPU-1")
    within = group(member(of)).key.name
    pod = build_worker_pod(of, 0, "mlr-worker-0", within, binding, None, SETTINGS)
    assert pod["spec"].get("tolerations", []) == gpus * [TOLERATED]


def test_reservation_pods_tolerate_the_taint_and_what_the_members_pods_tolerate() -> None:
    red = {"key": "team", "value": "red"}
    of = job()
    template = of.raw_spec["workers"]["template"]  # type: ignore[index]
    of = replace(
        of,
        raw_spec={
            "workers": {"template": {"spec": {**template["spec"], "tolerations": [red, TOLERATED]}}}
        },
    )
    state = ClusterState(now_seconds=0, jobs={of.key: of})
    its_group = group(member(of), slots=(slot(gpus=1),))
    [pod] = ReservationBinding(SETTINGS).wanted(its_group, state)
    assert pod["spec"]["tolerations"] == [TOLERATED, red]
