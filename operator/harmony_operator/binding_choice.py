"""What binds devices in this cluster, asked at the start and again while the operator runs.

A driver may be installed or removed at any time, long before or after the operator. That is so
rare that everything which rests on the choice may begin anew: the process ends with an error
and the kubelet starts the next one.
"""

import asyncio
from typing import Final

from harmony_operator.api_client import ApiClient, ApiError
from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.gpu_binding.choose import choose
from harmony_operator.settings import OperatorSettings

PERIOD_SECONDS: Final = 60.0


class BindingChangedError(Exception):
    """Devices are to be bound in another way than this process does."""


async def choose_now(client: ApiClient, settings: OperatorSettings) -> GpuBinding:
    """Return the binding for the cluster as it is. Raises ApiError."""
    served = await client.served("resource.k8s.io/v1")
    classes: frozenset[str] = frozenset()
    if "resource.k8s.io/v1 deviceclasses" in served:
        found = await client.list_metadata("DeviceClass")
        classes = frozenset(one["metadata"]["name"] for one in found["items"] or ())
    return choose(settings, served, classes)


async def end_when_another_binds(
    client: ApiClient, settings: OperatorSettings, binding: GpuBinding
) -> None:
    """Raise BindingChangedError once another binding would be chosen."""
    while True:
        await asyncio.sleep(PERIOD_SECONDS)
        try:
            now = await choose_now(client, settings)
        except ApiError:
            continue
        if now.name != binding.name:
            raise BindingChangedError(f"devices are to be bound by: {now.name}")
