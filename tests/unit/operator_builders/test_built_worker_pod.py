"""A worker's pod is the user's template with a sidecar, a place and peers."""

import json
from typing import Any

import pytest
from built_objects import checked, container, environment
from hypothesis import given
from hypothesis import strategies as st
from kubernetes.client import V1Pod

from harmony_api import labels
from harmony_api.quantity import parse_quantity
from harmony_operator.builders.sidecar import sidecar_user_id
from harmony_operator.builders.worker_pod import build_worker_pod
from harmony_operator.gpu_binding import SlotBinding
from harmony_operator.observed import ObservedJob
from harmony_operator.parsing import parse_pod
from operator_values import SETTINGS, group, job, member, template

CPU = SlotBinding(slot="node-a/0", node="node-a", devices=("node-a/0",))


def built(
    of: ObservedJob,
    index: int = 0,
    *,
    name: str | None = None,
    binding: SlotBinding = CPU,
    plan: str | None = "{}",
) -> dict[str, Any]:
    name = name or f"{of.key.name}-worker-{index}"
    pod = build_worker_pod(of, index, name, group(member(of)).key.name, binding, plan, SETTINGS)
    return checked(V1Pod, pod)


def test_the_operator_reads_from_a_pod_what_it_built_into_it() -> None:
    seen = parse_pod(built(job(), 1, plan='{"group":"g"}'))
    assert seen is not None
    assert (seen.key, seen.job, seen.job_uid) == (("team", "mlr-worker-1"), "mlr", "uid-mlr")
    assert (seen.role, seen.index) == ("worker", 1)
    assert (seen.group, seen.slot) == ("g-12345", "node-a/0")
    assert seen.node_plan == '{"group":"g"}'


def test_a_pod_goes_with_its_job() -> None:
    [owner] = built(job())["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "harmony.dev/v1alpha1",
        "kind": "HarmonyJob",
        "name": "mlr",
        "uid": "uid-mlr",
        "controller": True,
        "blockOwnerDeletion": True,
    }


def test_a_pod_that_replaces_one_that_is_held_has_its_host_name() -> None:
    pod = built(job(), 1, name="mlr-worker-1-2")
    assert pod["metadata"]["name"] == "mlr-worker-1-2"
    assert (pod["spec"]["hostname"], pod["spec"]["subdomain"]) == ("mlr-worker-1", "mlr")


def test_a_worker_finds_its_servers_its_sidecar_and_its_peers() -> None:
    pod = built(job(parameterServers={"replicas": 2}, iterations=50), 1)
    variables = environment(container(pod, "worker"))
    assert variables["HARMONY_JOB"] == "mlr"
    assert variables["HARMONY_WORKER_INDEX"] == "1"
    assert variables["HARMONY_WORKERS"] == "2"
    assert variables["HARMONY_ITERATIONS"] == "50"
    assert variables["HARMONY_SERVERS"] == (
        "mlr-server-0.mlr.team.svc:29500,mlr-server-1.mlr.team.svc:29500"
    )
    assert variables["HARMONY_SOCKET"] == "/run/harmony/worker.sock"
    assert variables["DMLC_ROLE"] == "worker"
    assert json.loads(variables["TF_CONFIG"])["task"] == {"type": "worker", "index": 1}
    assert variables["DMLC_PS_ROOT_URI"] == "mlr-server-0.mlr.team.svc"
    assert variables["DMLC_PS_ROOT_PORT"] == "29499"


def test_commands_can_name_the_examples_of_the_image() -> None:
    pod = built(job())
    assert environment(container(pod, "worker"))["HARMONY_EXAMPLES"] == "/opt/harmony/examples"


def test_an_image_may_keep_its_examples_elsewhere() -> None:
    of = job(workers={"template": template()})
    of.raw_spec["workers"]["template"]["spec"]["containers"][0]["env"] = [  # type: ignore[index]
        {"name": "HARMONY_EXAMPLES", "value": "/mine"}
    ]
    assert environment(container(built(of), "worker"))["HARMONY_EXAMPLES"] == "/mine"


def test_the_sidecar_is_a_native_one_and_the_first_container_to_start() -> None:
    pod = built(job(workers={"template": template(initContainers=[{"name": "fetch"}])}))
    first, second = pod["spec"]["initContainers"]
    assert (first["name"], first["restartPolicy"]) == ("harmony-sidecar", "Always")
    assert second["name"] == "fetch"


def test_a_sidecar_goes_by_a_name_that_no_job_of_another_namespace_has() -> None:
    pod = built(job(namespace="team"))
    assert environment(container(pod, "harmony-sidecar"))["HARMONY_JOB"] == "team/mlr"


def test_the_node_store_is_mounted_in_the_sidecar_alone() -> None:
    pod = built(job())
    [store] = [one for one in pod["spec"]["volumes"] if "hostPath" in one]
    assert store["hostPath"] == {"path": "/var/lib/harmony/node-a", "type": "Directory"}
    mounts = {
        one["name"]: {mount["name"] for mount in one["volumeMounts"]}
        for one in (container(pod, "worker"), container(pod, "harmony-sidecar"))
    }
    assert store["name"] in mounts["harmony-sidecar"]
    assert store["name"] not in mounts["worker"]


def test_the_sidecar_has_no_privilege_but_the_harmony_group() -> None:
    pod = built(job())
    security = container(pod, "harmony-sidecar")["securityContext"]
    assert security["runAsUser"] == security["runAsGroup"] == sidecar_user_id("uid-mlr")
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert not security["allowPrivilegeEscalation"]
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert pod["spec"]["securityContext"]["supplementalGroups"] == [64321]


@given(st.text(), st.text())
def test_the_sidecars_of_a_job_share_a_user_far_from_all_others(one: str, other: str) -> None:
    assert 200_000 <= sidecar_user_id(one) <= 2_199_999
    assert (sidecar_user_id(one) == sidecar_user_id(other)) == (one == other)


def test_the_plan_comes_from_the_annotation_and_need_not_be_there_yet() -> None:
    pod = built(job(), plan=None)
    assert labels.NODE_PLAN not in pod["metadata"]["annotations"]
    [volume] = [one for one in pod["spec"]["volumes"] if "downwardAPI" in one]
    [item] = volume["downwardAPI"]["items"]
    assert item["path"] == "node-plan"
    assert item["fieldRef"]["fieldPath"] == "metadata.annotations['harmony.dev/node-plan']"
    assert environment(container(pod, "harmony-sidecar"))["HARMONY_NODE_PLAN"] == (
        "/etc/harmony/pod/node-plan"
    )


def test_the_pod_is_bound_to_its_slots_node() -> None:
    affinity = built(job())["spec"]["affinity"]["nodeAffinity"]
    [term] = affinity["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    assert term == {
        "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-a"]}]
    }


def test_a_job_without_gpus_sees_none_even_on_a_node_that_has_some() -> None:
    variables = environment(container(built(job()), "worker"))
    assert variables["NVIDIA_VISIBLE_DEVICES"] == "void"


def test_a_worker_names_as_many_requests_of_the_slots_claim_as_it_has_gpus() -> None:
    binding = SlotBinding(slot="s", node="node-a", devices=None, claim_name="g-12345-0")
    pod = built(job(workers={"gpusPerWorker": 2}), binding=binding)
    [claim] = pod["spec"]["resourceClaims"]
    assert claim["resourceClaimName"] == "g-12345-0"
    assert container(pod, "worker")["resources"]["claims"] == [
        {"name": claim["name"], "request": "gpu-00"},
        {"name": claim["name"], "request": "gpu-01"},
    ]
    assert "claims" not in container(pod, "harmony-sidecar")["resources"]
    assert "NVIDIA_VISIBLE_DEVICES" not in environment(container(pod, "worker"))


def test_a_worker_on_a_reserved_slot_sees_as_many_of_its_devices_as_it_has_gpus() -> None:
    binding = SlotBinding(
        slot="s",
        node="node-a",
        devices=("GPU-1", "GPU-2"),
        visible_devices="GPU-1,GPU-2",
        runtime_class="nvidia",
    )
    pod = built(job(workers={"gpusPerWorker": 1}), binding=binding)
    assert environment(container(pod, "worker"))["NVIDIA_VISIBLE_DEVICES"] == "GPU-1"
    assert pod["spec"]["runtimeClassName"] == "nvidia"


def test_notes_of_tools_are_not_copied() -> None:
    of = job()
    of.raw_spec["workers"]["template"]["metadata"] = {  # type: ignore[index]
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "kopf.zalando.org/last-handled-configuration": "{}",
            "team/contact": "ada",
        }
    }
    annotations = built(of)["metadata"]["annotations"]
    assert set(annotations) == {"team/contact", labels.SLOT, labels.NODE_PLAN}


def test_pods_have_the_priority_class_of_their_job_unless_they_bring_one() -> None:
    assert built(job(priorityClassName="batch"))["spec"]["priorityClassName"] == "batch"
    own = {"template": template(priorityClassName="mine")}
    assert built(job(priorityClassName="batch", workers=own))["spec"]["priorityClassName"] == "mine"


def test_a_job_that_is_not_valid_has_no_pods() -> None:
    with pytest.raises(ValueError, match="not valid"):
        built(job(workers={"replicas": 0}))


NAMES = st.sampled_from(("a", "b", "c", "HARMONY_JOB", "DMLC_ROLE", "HARMONY_EXAMPLES", "OTHER"))
TEXTS = st.text("abc-", max_size=5)
TERMS = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "matchExpressions": st.just([{"key": "zone", "operator": "In", "values": ["a"]}]),
            "matchFields": st.just(
                [{"key": "metadata.name", "operator": "NotIn", "values": ["x"]}]
            ),
        },
    ),
    min_size=1,
    max_size=3,
)
AFFINITIES = st.fixed_dictionaries(
    {},
    optional={
        "nodeAffinity": st.fixed_dictionaries(
            {},
            optional={
                "requiredDuringSchedulingIgnoredDuringExecution": st.fixed_dictionaries(
                    {"nodeSelectorTerms": TERMS}
                ),
                "preferredDuringSchedulingIgnoredDuringExecution": st.just([]),
            },
        ),
        "podAntiAffinity": st.just({}),
    },
)
CONTAINERS = st.fixed_dictionaries(
    {"name": st.just("worker"), "image": st.just("train")},
    optional={
        "env": st.lists(
            st.fixed_dictionaries({"name": NAMES, "value": TEXTS}),
            unique_by=lambda one: one["name"],
        ),
        "volumeMounts": st.none() | st.just([{"name": "data", "mountPath": "/data"}]),
        "resources": st.fixed_dictionaries(
            {}, optional={"limits": st.just({"cpu": "2"}), "claims": st.just([{"name": "nic"}])}
        ),
        "securityContext": st.just({"runAsUser": 1000}),
    },
)
TEMPLATES = st.fixed_dictionaries(
    {
        "spec": st.fixed_dictionaries(
            {
                "containers": st.tuples(CONTAINERS, st.just({"name": "other", "image": "x"})).map(
                    list
                )
            },
            optional={
                "affinity": st.none() | AFFINITIES,
                "initContainers": st.none() | st.just([{"name": "fetch", "image": "y"}]),
                "volumes": st.none() | st.just([{"name": "data", "emptyDir": {}}]),
                "resourceClaims": st.just([{"name": "nic", "resourceClaimName": "nic"}]),
                "securityContext": st.none()
                | st.fixed_dictionaries(
                    {}, optional={"supplementalGroups": st.lists(st.sampled_from((5, 64321)))}
                ),
                "enableServiceLinks": st.booleans(),
                "tolerations": st.just([{"operator": "Exists"}]),
            },
        )
    },
    optional={
        "metadata": st.fixed_dictionaries(
            {"creationTimestamp": st.none()},
            optional={
                "labels": st.none() | st.dictionaries(st.sampled_from(("app", "x")), TEXTS),
                "annotations": st.none() | st.dictionaries(st.sampled_from(("a", "b")), TEXTS),
            },
        )
    },
)
BINDINGS = st.sampled_from(
    (
        SlotBinding(slot="s", node="node-a", devices=None, claim_name="g-0"),
        SlotBinding(slot="s", node="node-a", devices=("GPU-1",), visible_devices="GPU-1"),
        SlotBinding(slot="s", node="node-a", devices=("s",)),
    )
)


@given(TEMPLATES, BINDINGS, st.integers(0, 1))
def test_whatever_the_template_it_becomes_a_pod_that_harmony_can_run(
    user: dict[str, Any], binding: SlotBinding, gpus: int
) -> None:
    before = json.dumps(user)
    of = job(workers={"template": user, "gpusPerWorker": gpus})
    assert not of.errors
    pod = built(of, binding=binding)
    assert json.dumps(user) == before, "the user's template was written to"
    spec, theirs = pod["spec"], user["spec"]

    worker = container(pod, "worker")
    variables = environment(worker)
    assert variables["HARMONY_JOB"] == "mlr"
    assert variables["DMLC_ROLE"] == "worker"
    for one in theirs["containers"][0].get("env") or ():
        assert one["name"] in variables
    assert spec["containers"][1] == theirs["containers"][1]
    assert spec["initContainers"][0]["name"] == "harmony-sidecar"
    assert spec["initContainers"][1:] == (theirs.get("initContainers") or [])

    volumes = [one["name"] for one in spec["volumes"]]
    assert len(set(volumes)) == len(volumes)
    assert [one for one in (theirs.get("volumes") or ()) if one not in spec["volumes"]] == []
    groups = (theirs.get("securityContext") or {}).get("supplementalGroups", ())
    assert set(spec["securityContext"]["supplementalGroups"]) == {*groups, 64321}
    claims = [one["name"] for one in spec.get("resourceClaims", ())]
    for used in worker.get("resources", {}).get("claims", ()):
        assert used["name"] in claims or used["name"] == "nic"

    given_affinity = (theirs.get("affinity") or {}).get("nodeAffinity", {})
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = spec["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert terms
    for term in terms:
        assert term["matchFields"][-1]["values"] == ["node-a"]
    wishes = [
        term for term in given_affinity.get(required, {}).get("nodeSelectorTerms", ()) if term
    ]
    assert len(terms) == max(1, len(wishes))
    for wish, term in zip(wishes, terms, strict=False):
        assert wish.get("matchExpressions") == term.get("matchExpressions")
        assert term["matchFields"][:-1] == wish.get("matchFields", [])


def test_the_sidecar_requests_what_it_uses_so_that_the_scheduler_counts_it() -> None:
    asked = {"requests": {"cpu": "2"}, "limits": {"memory": "1Gi"}}
    own = {"name": "worker", "image": "train", "resources": asked}
    pod = built(job(workers={"template": template(containers=[own])}))
    resources = container(pod, "harmony-sidecar")["resources"]
    assert all(parse_quantity(resources["requests"][name]) > 0 for name in ("cpu", "memory"))
    assert "cpu" not in resources["limits"], "a throttled sidecar would hold up its node"
    assert container(pod, "worker")["resources"] == asked
