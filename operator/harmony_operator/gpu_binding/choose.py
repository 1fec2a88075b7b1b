"""Which binding a cluster gets: what is installed, unless the settings say otherwise."""

from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.settings import OperatorSettings


def choose(
    settings: OperatorSettings, served: frozenset[str], device_classes: frozenset[str]
) -> GpuBinding:
    """Return the binding. CPU slots are never bound, whatever it is.

    `served` are the resources that the API server has, such as
    `resource.k8s.io/v1 resourceclaims`, and `device_classes` the names of the DeviceClasses.
    """
    raise NotImplementedError
