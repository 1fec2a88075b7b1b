"""What runs inside Harmony's pods on real kubelets: the images, and how processes end."""

import json

import pytest
from e2e_jobs import Jobs, example, exit_code, telling_losses

from cluster import images

TERMINATED = 143
ANYBODY = {
    "runAsUser": 424_242,
    "runAsGroup": 424_242,
    "runAsNonRoot": True,
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("image", "present", "absent"),
    [
        ("operator", ("harmony_operator.main",), ("torch",)),
        ("sidecar", ("harmony_sidecar.sidecar",), ("torch", "kopf", "kubernetes", "numpy")),
        ("worker", ("harmony_worker.job", "sklearn"), ("kopf", "kubernetes")),
    ],
)
def test_an_image_has_what_it_needs_and_runs_as_anybody_on_a_read_only_root(
    jobs: Jobs, image: str, present: tuple[str, ...], absent: tuple[str, ...]
) -> None:
    program = (
        f"import importlib as i, importlib.util as u; [i.import_module(n) for n in {present}]; "
        f"found = [n for n in {absent} if u.find_spec(n)]; print(found); assert not found"
    )
    container = {
        "name": "main",
        "image": images.reference(image),
        "command": ["python", "-c", program],
        "securityContext": ANYBODY,
    }
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": image},
        "spec": {"containers": [container], "restartPolicy": "Never"},
    }
    jobs.kubectl("create", "--filename=-", input=json.dumps(pod))
    jobs.wait(
        "the program ends",
        lambda: jobs.get("pod", image)["status"].get("phase") in ("Succeeded", "Failed"),
    )
    assert jobs.get("pod", image)["status"]["phase"] == "Succeeded", jobs.kubectl("logs", image)


@pytest.mark.timeout(900)
def test_processes_of_deleted_pods_end_by_sigterm_and_the_job_goes_on(jobs: Jobs) -> None:
    jobs.apply(telling_losses(example("digits_mlr", iterations=200_000, gpusPerWorker=0)))
    job = "digits-mlr"
    jobs.wait_for_iteration(job, 5)
    pods = [(f"{job}-worker-0", "worker"), (f"{job}-server-0", "server")]
    for name, _ in pods:
        jobs.hold(name)
        jobs.kubectl("delete", "pod", name, "--wait=false")
    for name, container in pods:
        code = jobs.wait(
            f"{name} ends",
            lambda name=name, container=container: exit_code(jobs.get("pod", name), container),
        )
        assert code == TERMINATED
        jobs.let_go(name)
    jobs.wait_for_iteration(job, 5)
    jobs.kubectl("delete", "harmonyjob", job)
    jobs.wait("nothing is left of the job", lambda: not jobs.pods(job))
