"""Where servers write their snapshots: a claim of the user's, or one of each server's own."""

from built_objects import checked
from kubernetes.client import V1PersistentVolumeClaim

from harmony_operator.builders.server_pod import build_server_pod
from harmony_operator.builders.volume_claim import build_volume_claim, volume_claim_of
from operator_values import SETTINGS, job

CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


def test_a_servers_own_claim_is_made_from_the_template_and_goes_with_the_job() -> None:
    template = {"metadata": {"labels": {"tier": "fast"}}, "spec": CLAIM}
    of = job(checkpoint={"volumeClaimTemplate": template})
    claim = checked(V1PersistentVolumeClaim, build_volume_claim(of, 1))
    assert claim["spec"] == CLAIM
    assert claim["metadata"]["name"] == f"{of.key.name}-server-1" == volume_claim_of(of, 1)
    assert claim["metadata"]["labels"]["tier"] == "fast"
    assert claim["metadata"]["ownerReferences"][0]["uid"] == of.uid


def test_servers_use_their_own_claim_or_the_one_that_is_named() -> None:
    def used(**checkpoint: object) -> list[str]:
        of = job(parameterServers={"replicas": 2}, checkpoint=checkpoint)
        pods = [build_server_pod(of, index, f"s-{index}", SETTINGS) for index in range(2)]
        return [
            volume["persistentVolumeClaim"]["claimName"]
            for pod in pods
            for volume in pod["spec"]["volumes"]
            if "persistentVolumeClaim" in volume
        ]

    name = job().key.name
    assert used(volumeClaimTemplate={"spec": CLAIM}) == [f"{name}-server-0", f"{name}-server-1"]
    assert used(volumeClaimName="ckpt") == ["ckpt", "ckpt"]
    assert used() == []
