"""A server's pod is Harmony's own server, or the user's."""

from typing import Any

from built_objects import checked, container, environment
from kubernetes.client import V1Pod, V1Service

from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.builders.service import build_service
from harmony_operator.observed import ObservedJob
from harmony_operator.parsing import parse_pod
from operator_values import SETTINGS, job, template


def built(of: ObservedJob, index: int = 0) -> dict[str, Any]:
    pod = build_server_pod(of, index, f"{of.key.name}-server-{index}", SETTINGS)
    return checked(V1Pod, pod)


def test_without_a_template_harmonys_own_server_runs() -> None:
    server = container(built(job()), "server")
    assert server["image"] == "harmony/worker"
    assert server["command"] == ["python", "-m", "harmony_worker.parameter_server"]


def test_harmonys_own_server_is_one_that_the_restricted_level_admits() -> None:
    pod = built(job())
    security = container(pod, "server")["securityContext"]
    assert security["runAsNonRoot"]
    assert security["readOnlyRootFilesystem"]
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not any("hostPath" in volume for volume in pod["spec"]["volumes"])
    assert pod["spec"]["automountServiceAccountToken"] is False


def test_the_users_own_server_gets_the_same_environment() -> None:
    own = template("server", terminationGracePeriodSeconds=5)
    pod = built(job(parameterServers={"replicas": 2, "template": own}), 1)
    assert pod["spec"]["terminationGracePeriodSeconds"] == 5
    server = container(pod, "server")
    assert server["image"] == "train"
    variables = environment(server)
    assert variables["HARMONY_SERVER_INDEX"] == "1"
    assert variables["HARMONY_WORKERS"] == "2"
    assert variables["DMLC_ROLE"] == "server"
    assert variables["DMLC_NUM_SERVER"] == "2"
    assert "HARMONY_SNAPSHOT_DIRECTORY" not in variables


def test_a_server_keeps_its_snapshots_on_the_volume_that_the_job_names() -> None:
    pod = built(job(checkpoint={"volumeClaimName": "ckpt", "intervalSeconds": 60}))
    [volume] = [one for one in pod["spec"]["volumes"] if "persistentVolumeClaim" in one]
    assert volume["persistentVolumeClaim"] == {"claimName": "ckpt"}
    server = container(pod, "server")
    [mount] = [one for one in server["volumeMounts"] if one["name"] == volume["name"]]
    variables = environment(server)
    assert variables["HARMONY_SNAPSHOT_DIRECTORY"] == f"{mount['mountPath']}/mlr/server-0"
    assert variables["HARMONY_SNAPSHOT_INTERVAL_SECONDS"] == "60"


def test_a_server_is_seen_as_one_and_belongs_to_no_group() -> None:
    seen = parse_pod(built(job(), 0))
    assert seen is not None
    assert (seen.role, seen.index, seen.group, seen.slot) == ("server", 0, "", "")


def test_building_twice_gives_the_same_and_neither_is_written_to_the_job() -> None:
    of = job(parameterServers={"template": template("server")})
    first = built(of)
    first["spec"]["containers"][0]["env"].clear()
    assert built(of)["spec"]["containers"][0]["env"]


def test_the_service_names_all_pods_of_the_job_also_before_they_are_ready() -> None:
    service = checked(V1Service, build_service(job()))
    assert service["metadata"]["name"] == built(job())["spec"]["subdomain"] == "mlr"
    assert service["spec"]["clusterIP"] == "None"
    assert service["spec"]["publishNotReadyAddresses"]
    assert service["spec"]["selector"].items() <= built(job())["metadata"]["labels"].items()
    [port] = service["spec"]["ports"]
    assert port["port"] == 29500
