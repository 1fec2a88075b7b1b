"""What the chart renders, read by the official client's models and by the operator itself."""

from dataclasses import fields
from typing import get_args

import kubernetes.client
import pytest
from chart_objects import CHART, KUBERNETES_VERSION, Helm, Objects, Render, one, pod_specs

from harmony_api import labels, pod_layout
from harmony_api.command_line import expand
from harmony_operator import actions, settings
from harmony_operator.api_client import RESOURCES
from harmony_operator.mirror import MirroredKind

OPERATOR = "harmony-operator"
NODE_STORE = "harmony-node-store"
PORTS = ("PROBE", "METRICS")


def variables(objects: Objects) -> dict[str, str]:
    """The operator's environment, as kubelet sets it."""
    container = one(objects, "Deployment", OPERATOR)["spec"]["template"]["spec"]["containers"][0]
    about_itself = {"POD_NAME": "harmony-operator-0"}
    return {
        entry["name"]: expand(entry["value"], about_itself)
        for entry in container["env"]
        if "value" in entry
    }


@pytest.fixture(scope="module")
def objects(render: Render) -> Objects:
    return render()


def test_helm_finds_nothing_to_complain_about(helm: Helm) -> None:
    answer = helm("lint", "--strict", "--kube-version", KUBERNETES_VERSION, str(CHART))
    assert "0 chart(s) failed" in answer
    assert "WARNING" not in answer


@pytest.mark.parametrize(
    "values",
    [
        (),
        (
            "image.pullSecrets={one,two}",
            "operator.priorityClassName=system-cluster-critical",
            "operator.nodeSelector.kind=cpu",
            "operator.tolerations[0].operator=Exists",
            "operator.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution=null",
            "nodeStore.nodeSelector.kind=gpu",
            "nodeStore.tolerations=null",
        ),
    ],
    ids=["defaults", "everything"],
)
def test_every_object_is_one_that_the_official_client_reads(
    render: Render, values: tuple[str, ...]
) -> None:
    for rendered in render(*values):
        model = getattr(kubernetes.client, f"V1{rendered['kind']}")
        model.model_validate(rendered)


def test_definitions_are_those_of_the_models_and_outlive_the_chart(objects: Objects) -> None:
    for name in ("harmonyjobs", "harmonygroups"):
        definition = one(objects, "CustomResourceDefinition", f"{name}.harmony.dev")
        assert definition["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}


def test_definitions_go_with_the_chart_or_stay_out_where_values_say_so(render: Render) -> None:
    gone = one(render("crds.keep=false"), "CustomResourceDefinition", "harmonyjobs.harmony.dev")
    assert "annotations" not in gone["metadata"]
    kinds = {each["kind"] for each in render("crds.enabled=false")}
    assert "CustomResourceDefinition" not in kinds
    assert "Deployment" in kinds


def test_the_operator_understands_its_environment(objects: Objects) -> None:
    understood = settings.from_environment(variables(objects))
    assert understood == settings.OperatorSettings(
        sidecar_image="harmony/sidecar:0.1.0", server_image="harmony/worker:0.1.0"
    )


def test_every_setting_of_the_operator_is_a_value_of_the_chart(render: Render) -> None:
    written = variables(
        render(
            "image.registry=registry.example/harmony",
            "image.tag=2.0",
            "image.pullPolicy=Never",
            "gpu.binding=reservation",
            "gpu.deviceClass=gpu.example.com",
            "gpu.resource=example.com/gpu",
            "gpu.runtimeClass=nvidia",
            "gpu.reservationEnvironment.NVIDIA_VISIBLE_DEVICES=GPU-$(POD_NAME)",
            "gpu.memoryHeadroom.percent=5",
            "gpu.memoryHeadroom.minimum=1Gi",
            "network=FullDuplex",
            "queueOrder=ShortestFirst",
            "cpuSlotsPerNode=2",
            "nodeStore.root=/data/harmony",
        )
    )
    names = {
        f"{settings.PREFIX}{field.name.upper()}" for field in fields(settings.OperatorSettings)
    }
    # Each pod has an address of its own, so nobody needs other ports.
    assert set(written) == names - {f"{settings.PREFIX}{kind}_PORT" for kind in PORTS}
    assert settings.from_environment(written) == settings.OperatorSettings(
        sidecar_image="registry.example/harmony/sidecar:2.0",
        server_image="registry.example/harmony/worker:2.0",
        image_pull_policy="Never",
        gpu_binding="reservation",
        device_class="gpu.example.com",
        gpu_resource="example.com/gpu",
        runtime_class="nvidia",
        reservation_environment={"NVIDIA_VISIBLE_DEVICES": "GPU-$(POD_NAME)"},
        device_memory_headroom_percent=5,
        device_memory_headroom_bytes=2**30,
        network="FullDuplex",
        queue_order="ShortestFirst",
        cpu_slots_per_node=2,
        node_store_root="/data/harmony",
    )


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("gpu.binding=mps", "/gpu/binding"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("nodeStore.root=data", "/nodeStore/root"),
        ("cpuSlotsPerNode=two", "/cpuSlotsPerNode"),
        ("gpu.memoryHeadroom.percent=101", "/gpu/memoryHeadroom/percent"),
        ("gpu.memoryHeadroom.minimum=256MB", "/gpu/memoryHeadroom/minimum"),
        ("operator.replicas=2", "replicas"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_by_its_name(
    render: Render, value: str, complaint: str
) -> None:
    with pytest.raises(RuntimeError) as refusal:
        render(value)
    assert complaint.strip("/").replace("/", ".") in str(refusal.value).replace("/", ".")


def test_only_the_preparation_of_a_node_is_root_and_it_can_do_little(objects: Objects) -> None:
    containers = {
        container["name"]: container["securityContext"]
        for spec in pod_specs(objects).values()
        for container in (*spec["containers"], *spec.get("initContainers", ()))
    }
    prepare = containers.pop("prepare")
    assert prepare["capabilities"] == {"drop": ["ALL"], "add": ["CHOWN", "FSETID"]}
    for context in (prepare, *containers.values()):
        assert context["readOnlyRootFilesystem"]
        assert not context["allowPrivilegeEscalation"]
        assert context["seccompProfile"] == {"type": "RuntimeDefault"}
    for context in containers.values():
        assert context["runAsNonRoot"]
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_only_the_operator_has_a_token(objects: Objects) -> None:
    tokens = {
        name: spec["automountServiceAccountToken"] for name, spec in pod_specs(objects).items()
    }
    assert tokens == {OPERATOR: True, NODE_STORE: False}


def test_the_node_store_is_prepared_where_the_sidecars_look(render: Render) -> None:
    spec = pod_specs(render("nodeStore.root=/data/harmony"))[NODE_STORE]
    [volume] = spec["volumes"]
    assert volume["hostPath"] == {"path": "/data/harmony", "type": "DirectoryOrCreate"}
    [prepare] = spec["initContainers"]
    assert prepare["volumeMounts"] == [{"name": "stores", "mountPath": "/data/harmony"}]
    assert prepare["command"][-1] == "$(NODE_STORE_ROOT)/$(NODE_NAME)"
    default = pod_specs(render())[NODE_STORE]["volumes"][0]["hostPath"]["path"]
    assert default == pod_layout.NODE_STORES_FOLDER


def test_probes_and_metrics_are_asked_where_the_operator_answers(objects: Objects) -> None:
    [container] = pod_specs(objects)[OPERATOR]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    told = settings.from_environment(variables(objects))
    assert ports == {"probes": told.probe_port, "metrics": told.metrics_port}


def test_there_is_one_operator_and_it_is_replaced_not_doubled(objects: Objects) -> None:
    spec = one(objects, "Deployment", OPERATOR)["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}


def allowed(objects: Objects, kind: str) -> set[str]:
    """Verbs that the operator has everywhere for a kind."""
    resource = RESOURCES[kind]
    group = resource.group_version.rpartition("/")[0]
    return {
        verb
        for rule in one(objects, "ClusterRole", OPERATOR)["rules"]
        if group in rule["apiGroups"] and resource.plural in rule["resources"]
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize("kind", get_args(MirroredKind))
def test_the_operator_may_watch_what_it_mirrors(objects: Objects, kind: str) -> None:
    assert {"list", "watch"} <= allowed(objects, kind)


@pytest.mark.parametrize("kind", get_args(actions.Kind))
def test_the_operator_may_make_and_delete_what_its_work_needs(objects: Objects, kind: str) -> None:
    # Jobs come from users; a server's volume claim goes with its job, by its owner.
    assert ("create" in allowed(objects, kind)) == (kind != "HarmonyJob")
    assert ("delete" in allowed(objects, kind)) == (kind != "PersistentVolumeClaim")


@pytest.mark.parametrize(
    ("kind", "verbs"),
    [
        ("Node", {"list", "watch"}),
        ("ResourceSlice", {"list", "watch"}),
        ("PriorityClass", {"list", "watch"}),
        ("DeviceClass", {"list"}),
    ],
)
def test_what_belongs_to_the_cluster_is_only_looked_at(
    objects: Objects, kind: str, verbs: set[str]
) -> None:
    assert allowed(objects, kind) == verbs


def test_the_operator_can_neither_read_secrets_nor_write_specs_of_jobs(objects: Objects) -> None:
    rules = one(objects, "ClusterRole", OPERATOR)["rules"]
    assert not any("*" in rule[part] for rule in rules for part in ("resources", "verbs"))
    assert not any("secrets" in rule["resources"] for rule in rules)
    assert not {"create", "update", "patch"} & allowed(objects, "HarmonyJob")


def test_the_lease_is_in_the_namespace_that_the_operator_is_told(objects: Objects) -> None:
    role = one(objects, "Role", OPERATOR)
    told = variables(objects)["HARMONY_OPERATOR_SYSTEM_NAMESPACE"]
    assert role["metadata"]["namespace"] == told == labels.SYSTEM_NAMESPACE
    assert [rule["resources"] for rule in role["rules"]] == [["leases"], ["leases"]]


@pytest.mark.parametrize(
    ("role", "verb", "audience"),
    [("harmony-edit", "create", "edit"), ("harmony-view", "watch", "view")],
)
def test_a_role_for_a_namespace_holds_for_the_jobs_in_it(
    objects: Objects, role: str, verb: str, audience: str
) -> None:
    found = one(objects, "ClusterRole", role)
    label = f"rbac.authorization.k8s.io/aggregate-to-{audience}"
    assert found["metadata"]["labels"][label] == "true"
    [rule] = found["rules"]
    assert "harmonyjobs" in rule["resources"]
    assert verb in rule["verbs"]
