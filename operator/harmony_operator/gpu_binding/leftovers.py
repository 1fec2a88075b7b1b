"""What another binding made for a group: a driver was installed or removed while it ran.

Its workers stop at an iteration boundary and start anew on what binds now; till then they use
what they were made with. It would hold devices for nobody afterwards, since its owner stays.
"""

from harmony_operator.actions import Delete
from harmony_operator.observed import ClusterState, ObservedGroup


def left_claims(group: ObservedGroup, state: ClusterState) -> tuple[Delete, ...]:
    """Return what deletes the group's claims; Kubernetes keeps one as long as a pod uses it."""
    return tuple(
        Delete(kind="ResourceClaim", key=claim.key, uid=claim.uid)
        for claim in state.claims.values()
        if (claim.key.namespace, claim.group) == group.key and not claim.deleting
    )


def left_reservations(group: ObservedGroup, state: ClusterState) -> tuple[Delete, ...]:
    """Return what deletes the group's reservation pods whose devices no worker uses."""
    used = {pod.slot for pod in state.pods.values() if pod.devices and not pod.finished}
    return tuple(
        Delete(kind="Pod", key=one.key, uid=one.uid)
        for one in state.reservations.values()
        if (one.key.namespace, one.group) == group.key and not one.deleting and one.slot not in used
    )
