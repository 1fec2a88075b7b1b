"""Credentials for the API server, the same for kopf's watches and for the operator's requests."""

import os
from dataclasses import replace

import kopf


def login(settings: kopf.OperatorSettings) -> kopf.ConnectionInfo:
    """Return the pod's service account or, outside a cluster, the current kubeconfig's user.

    A service account's token is read anew on each call, since the kubelet renews its file. The
    server is addressed as the pod's environment says, so that no name has to be resolved.
    Raises kopf.LoginError when there is neither.
    """
    info = kopf.login_with_service_account(settings=settings)
    host = os.environ.get("KUBERNETES_SERVICE_HOST")
    if info is not None and host:
        address = f"[{host}]" if ":" in host else host
        port = os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        info = replace(info, server=f"https://{address}:{port}")
    found = info or kopf.login_with_kubeconfig(settings=settings)
    if found is None:
        raise kopf.LoginError("neither a service account nor a kubeconfig: set KUBECONFIG")
    return found
