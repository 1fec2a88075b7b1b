"""Which binding a cluster gets: what is installed, unless the settings say otherwise."""

from typing import Final

from harmony_operator.gpu_binding import GpuBinding
from harmony_operator.gpu_binding.dra import ClaimBinding
from harmony_operator.gpu_binding.none import NoBinding
from harmony_operator.gpu_binding.reservation import ReservationBinding
from harmony_operator.settings import OperatorSettings

CLAIMS: Final = "resource.k8s.io/v1 resourceclaims"


def choose(
    settings: OperatorSettings, served: frozenset[str], device_classes: frozenset[str]
) -> GpuBinding:
    """Return the binding. CPU slots are never bound, whatever it is.

    `served` are the resources that the API server has, such as
    `resource.k8s.io/v1 resourceclaims`, and `device_classes` the names of the DeviceClasses:
    an API server has claims even where no driver offers devices.
    """
    match settings.gpu_binding:
        case "claim":
            return ClaimBinding(settings)
        case "reservation":
            return ReservationBinding(settings)
        case "none":
            return NoBinding()
        case "auto":
            if CLAIMS in served and settings.device_class in device_classes:
                return ClaimBinding(settings)
            return ReservationBinding(settings)
