"""Two real training jobs on one GPU of a real cluster: what the README promises, end to end."""

import base64
import io
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e_jobs import (
    Jobs,
    Kubectl,
    Manifest,
    example,
    named,
    slot_of,
    telling_losses,
    with_examples_from_here,
)

from cluster import images
from cluster.harmony import install
from cluster.provider import Cluster
from harmony_api.turn_checks import excessive_network_turns, overlapping_compute_turns
from local_run_harness import harmony_run

ITERATIONS = 60
GPU = "nvidia.com/gpu"
HEADER = "NAME STATE GROUP WORKERS PROGRESS RESTARTS AGE SLOWDOWN COMP NET SPILL"
ROW = r"Running g-\w{5} 1/1 \d+/1000000 0 \w+ \d+% [\d.]+ms [\d.]+ms"


@pytest.fixture(scope="module")
def pair() -> tuple[Manifest, Manifest]:
    """The jobs of `make demo`, shorter, each on one GPU."""
    return (
        example("demo-mlp", iterations=ITERATIONS, gpusPerWorker=1),
        example("demo-transformer", iterations=ITERATIONS, gpusPerWorker=1),
    )


@pytest.fixture(scope="module")
def program_text(harmony: None, kubectl: Kubectl, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The text that transformer learns in a pod: the standard library of the image's Python."""
    folder = tmp_path_factory.mktemp("text")
    tell = (
        "cd $(python -c 'import os; print(os.path.dirname(os.__file__))'); tar -chz *.py | base64"
    )
    image = f"--image={images.reference('worker')}"
    kubectl("run", "teller", image, "--restart=Never", "--command", "--", "sh", "-c", tell)
    kubectl("wait", "pod/teller", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=120s")
    archive = base64.b64decode(kubectl("logs", "teller"))
    kubectl("delete", "pod", "teller")
    with tarfile.open(fileobj=io.BytesIO(archive)) as text:
        text.extractall(folder, filter="data")
    return folder


@pytest.fixture(scope="module")
def local_losses(
    pair: tuple[Manifest, Manifest], program_text: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[int, str]]:
    """What the same manifests train to without a cluster, on the same text."""
    mlp, transformer = map(with_examples_from_here, pair)
    [container] = transformer["spec"]["workers"]["template"]["spec"]["containers"]
    container["args"] += ["--text", str(program_text)]
    with harmony_run(tmp_path_factory.mktemp("local"), mlp, transformer) as run:
        assert run.finish() == 0, run.output()
        return {job["metadata"]["name"]: run.losses(job["metadata"]["name"]) for job in pair}


def assert_trained_together(jobs: Jobs, local_losses: dict[str, dict[int, str]]) -> None:
    """Run mlp and transformer to their ends on one device, and look at all there is to see."""
    with jobs.recorded("mlp", "transformer") as record:
        jobs.wait_for("mlp", "Running")
        jobs.wait_for("transformer", "Running")
        [one], [other] = jobs.pods("mlp"), jobs.pods("transformer")
        assert slot_of(one) == slot_of(other)
        assert one["spec"]["nodeName"] == other["spec"]["nodeName"]
        pods = [pod["metadata"]["name"] for pod in (one, other)]
        first, second = map(jobs.devices_seen, pods)
        assert first == second, "both programs see the same device"
        assert "void" not in first[-1]
        first_plan, second_plan = map(jobs.node_plan, pods)
        assert first_plan["devices"] == second_plan["devices"]
        described = jobs.kubectl("describe", "hj", "mlp")
        for name in ("mlp", "transformer"):
            jobs.wait_for(name, "Succeeded")
    told = re.findall(r"^ *Normal +(\w+) +\w+ +harmony-operator +(\w+ \w+.*)$", described, re.M)
    assert [reason for reason, _ in told] == ["Placed", "WorkersRunning"], described
    assert told[-1][1] == "1 worker and 1 server"

    both = record.all_turns()
    assert {turn.phase for turn in both} >= {"PULL", "COMP", "PUSH"}
    coordinated = [turn for turn in both if turn.turn]
    assert len(coordinated) > 2 * ITERATIONS, "most phases ran with a permit"
    assert overlapping_compute_turns(both) == []
    assert excessive_network_turns(both) == []

    for name in ("mlp", "transformer"):
        losses = record.losses[name, 0] | jobs.losses(name)
        assert losses == local_losses[name], f"{name} trains to the losses of a local run"
        assert len(losses) == ITERATIONS
        status = jobs.status(name)
        assert status["state"] == "Succeeded"
        assert status["restarts"] == 0
        assert status["completionTime"]
    jobs.wait(
        "servers, groups and what bound the devices are gone",
        lambda: (
            not (
                jobs.all("pods", "harmony.dev/role=server")
                or jobs.all("harmonygroups")
                or jobs.all("resourceclaims")
                or jobs.all("pods", "app.kubernetes.io/component=reservation")
            )
        ),
    )
    reasons = [one["reason"] for one in jobs.events("mlp")]
    assert len(reasons) == len(set(reasons)), "every event is posted once"


@pytest.mark.timeout(900)
def test_two_jobs_train_on_one_gpu_through_a_claim(
    jobs: Jobs,
    one_gpu: str,
    pair: tuple[Manifest, Manifest],
    local_losses: dict[str, dict[int, str]],
) -> None:
    jobs.apply(*map(telling_losses, pair))
    assert_trained_together(jobs, local_losses)


@pytest.fixture
def reservations(cluster: Cluster, harmony: None) -> Iterator[None]:
    """One GPU that a device plugin hands out, shared through a reservation pod."""
    cluster.set_extended_resource(cluster.nodes[0], GPU, 1)
    install(
        cluster.kubeconfig,
        **{
            "gpu.binding": "reservation",
            "gpu.reservationEnvironment.NVIDIA_VISIBLE_DEVICES": "GPU-$(POD_NAME)",
        },
    )
    yield
    install(cluster.kubeconfig)
    cluster.set_extended_resource(cluster.nodes[0], GPU, 0)


@pytest.mark.timeout(900)
def test_two_jobs_train_on_one_gpu_through_a_reservation_pod(
    reservations: None,
    jobs: Jobs,
    pair: tuple[Manifest, Manifest],
    local_losses: dict[str, dict[int, str]],
) -> None:
    jobs.apply(*map(telling_losses, pair))
    assert_trained_together(jobs, local_losses)


def listing(jobs: Jobs) -> dict[str, str]:
    """The lines that `kubectl get` prints of the jobs by their first word, without the gaps."""
    lines = jobs.kubectl("get", "hj", "--output=wide").splitlines()
    return {words[0]: " ".join(words) for words in map(str.split, lines)}


@pytest.mark.timeout(900)
def test_a_third_job_shares_or_waits_and_is_told_why(jobs: Jobs, one_gpu: str) -> None:
    first, second, third, greedy = (
        telling_losses(named(example("digits_mlp", iterations=iterations, gpusPerWorker=1), name))
        for name, iterations in (
            ("first", 1_000_000),
            ("second", 1_000_000),
            ("third", 50),
            ("greedy", 50),
        )
    )
    greedy["spec"]["sharing"]["deviceMemory"] = {"footprint": "70Gi"}
    for one in (third, greedy):
        hint = {"computeMilliseconds": 50, "pullMilliseconds": 20, "pushMilliseconds": 20}
        one["spec"]["profile"] = hint
    jobs.apply(first, second)
    for name in ("first", "second"):
        jobs.wait(
            f"all columns about {name} are filled",
            lambda name=name: re.fullmatch(f"{name} {ROW}", listing(jobs).get(name, "")),
        )
    assert HEADER in listing(jobs).values()
    jobs.apply(third, greedy)
    jobs.wait_for("greedy", "Admitted", "False", "WaitingForSlot")
    jobs.wait(
        "greedy is told how much memory is there",
        lambda: "sharing.deviceMemory" in jobs.condition("greedy", "Admitted")["message"],
    )
    jobs.wait(
        "the third is told whom it shares with, or why it waits",
        lambda: any(
            name in jobs.condition("third", "Admitted").get("message", "")
            for name in (f"{jobs.namespace}/first", f"{jobs.namespace}/second")
        ),
    )
    said = [one for one in jobs.events("greedy") if one["reason"] == "WaitingForSlot"]
    assert [one.get("count", 1) for one in said] == [1], "it is told once"
    jobs.kubectl("delete", "hj", "first", "second")
    for name in ("third", "greedy"):
        jobs.wait_for(name, "Succeeded")
