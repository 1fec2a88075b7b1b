"""A pod template that no cluster takes is refused with its field's path and what to change."""

import string
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.template_check import template_errors
from operator_values import SETTINGS, job, template

AT = "spec.workers.template"
WORKER = {"name": "worker", "image": "train"}


def errors(**spec: Any) -> tuple[str, ...]:
    return template_errors(job(workers={"template": template(**spec)}))


def container_errors(**fields: Any) -> tuple[str, ...]:
    return errors(containers=[{**WORKER, **fields}])


def test_a_template_as_people_write_them_has_no_faults() -> None:
    assert not errors(
        containers=[
            {
                **WORKER,
                "env": [{"name": "SEED", "value": "1"}],
                "resources": {"requests": {"cpu": 1, "memory": "1Gi"}, "limits": {"cpu": "1500m"}},
                "ports": [{"containerPort": 8080, "protocol": "TCP"}],
                "volumeMounts": [{"name": "data", "mountPath": "/data"}],
                "livenessProbe": {"httpGet": {"path": "/", "port": "http"}},
            }
        ],
        initContainers=[{"name": "fetch", "image": "fetch", "restartPolicy": "Always"}],
        volumes=[
            {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
            {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": 1024}},
        ],
        restartPolicy="Never",
        nodeSelector={"zone": "a"},
    )


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        (
            {"ports": [{"containerPort": "80"}]},
            "ports[0].containerPort: must be a whole number: write 80 without quotes",
        ),
        (
            {"ports": [{"containerport": 80, "containerPort": 80}]},
            "ports[0].containerport: unknown field: did you mean 'containerPort'?",
        ),
        (
            {"securityContext": {"run_as_user": 1}},
            "securityContext.run_as_user: unknown field: did you mean 'runAsUser'?",
        ),
        (
            {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "1"}}},
            "resources.requests.cpu: is 2, above the limit of 1: lower it or raise the limit",
        ),
        (
            {"resources": {"limits": {"nvidia.com/gpu": 1}}},
            "resources.limits.nvidia.com/gpu: remove it: "
            "spec.workers.gpusPerWorker says how many GPUs a worker uses",
        ),
        (
            {"volumeMounts": [{"name": "data", "mountPath": "/data"}]},
            "volumeMounts[0].name: no volume of the pod is named 'data'",
        ),
        ({"imagePullPolicy": "always"}, "imagePullPolicy: must be Always or IfNotPresent or Never"),
        ({"ports": [{"containerPort": 0}]}, "ports[0].containerPort: must be between 1 and 65535"),
        ({"image": " "}, "image: is required on a cluster"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_a_fault_of_a_container_is_told_with_its_path(fields: dict[str, Any], error: str) -> None:
    [found] = container_errors(**fields)
    assert found.startswith(f"{AT}.spec.containers[0].{error}")


@pytest.mark.parametrize(
    ("spec", "path"),
    [
        ({"restartPolicy": "OnFailure"}, "restartPolicy"),
        ({"hostNetwork": True}, "hostNetwork"),
        ({"nodeName": "node-a"}, "nodeName"),
        ({"hostname": "me"}, "hostname"),
        ({"subdomain": "mine"}, "subdomain"),
        ({"volumes": [{"name": "harmony-run", "emptyDir": {}}]}, "volumes[0].name"),
        ({"resourceClaims": [{"name": "harmony-gpus"}]}, "resourceClaims[0].name"),
        (
            {"initContainers": [{"name": "harmony-sidecar", "image": "x"}]},
            "initContainers[0].name",
        ),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1 GB"}}]}, None),
        ({"nodeSelector": {"zone": "a b"}}, "nodeSelector.zone"),
        ({"dnsPolicy": "default"}, "dnsPolicy"),
    ],
    ids=str,
)
def test_what_harmony_or_the_api_server_cannot_take_is_refused(
    spec: dict[str, Any], path: str | None
) -> None:
    [found] = errors(**spec)
    assert found.startswith(f"{AT}.spec.{path or 'volumes[0].emptyDir.sizeLimit'}: ")


def test_the_folder_of_the_socket_is_not_mounted_over() -> None:
    found = errors(
        containers=[{**WORKER, "volumeMounts": [{"name": "v", "mountPath": "/run/harmony/"}]}],
        volumes=[{"name": "v", "emptyDir": {}}],
    )
    assert [one.partition(": ")[0] for one in found] == [
        f"{AT}.spec.containers[0].volumeMounts[0].mountPath"
    ]


def test_labels_of_harmony_and_finalizers_do_not_belong_in_a_template() -> None:
    metadata = {
        "labels": {"harmony.dev/role": "worker", "app": "x"},
        "annotations": {"harmony.dev/node-plan": "{}"},
        "finalizers": ["team/hold"],
    }
    found = template_errors(job(workers={"template": {**template(), "metadata": metadata}}))
    assert [one.partition(": ")[0] for one in found] == [
        f"{AT}.metadata.finalizers",
        f"{AT}.metadata.labels.harmony.dev/role",
        f"{AT}.metadata.annotations.harmony.dev/node-plan",
    ]


def test_two_of_one_name_are_told_apart() -> None:
    twice = {"name": "v", "emptyDir": {}}
    assert len(errors(volumes=[twice, twice])) == 2
    assert errors(initContainers=[WORKER])


def test_servers_are_checked_like_workers_but_may_hold_gpus_of_their_own() -> None:
    server = {"name": "server", "resources": {"limits": {"nvidia.com/gpu": 1}}}
    of = job(parameterServers={"template": {"spec": {"containers": [server]}}})
    assert template_errors(of) == (
        "spec.parameterServers.template.spec.containers[0].image: is required on a cluster",
    )


def test_what_the_models_said_is_not_said_again() -> None:
    of = job(workers={"template": template(containers=[{**WORKER, "imag": "x"}])})
    assert of.errors
    assert template_errors(of) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(string.ascii_letters, max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                (
                    *("name", "image", "containers", "volumes", "limits", "requests", "resources"),
                    *(
                        "metadata",
                        "labels",
                        "spec",
                        "env",
                        "ports",
                        "volumeMounts",
                        "mountPath",
                        "cpu",
                    ),
                    *("initContainers", "nodeSelector", "emptyDir", "sizeLimit", "containerPort"),
                )
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_nothing_that_a_user_can_write_breaks_the_check(one: Any, other: Any) -> None:
    of = job(
        workers={"template": {"metadata": other, "spec": one}},
        parameterServers={"template": template("server", **one) if isinstance(one, dict) else one},
    )
    found = template_errors(of)
    assert all(error.startswith("spec.") for error in found)
    if not of.errors and not found:
        build_server_pod(of, 0, "mlr-server-0", SETTINGS)
