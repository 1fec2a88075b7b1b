"""Between a model and the wire: flat host memory that transfers use, and device copies.

On a CPU the model's parameters are views of the flat host buffer and their gradients are sent
from where autograd put them: nothing is copied. On a device there is a flat device buffer of
the same form, pinned host memory beside it, and one copy each way per iteration, made within
COMP so that transfers touch host memory only.
"""

from collections.abc import Mapping, Sequence

import torch

from harmony_worker.parameter_server.layout import ALIGNMENT_BYTES, DenseTensor, Layout, Part
from harmony_worker.parameter_server.wire import bytes_of

_PADDING = memoryview(bytes(ALIGNMENT_BYTES))


class Staging:
    """The memory of one model's trained parameters."""

    def __init__(self, layout: Layout, parameters: Mapping[str, torch.nn.Parameter]) -> None:
        """Move the parameters' data into one flat buffer, values kept.

        Raises ValueError when they are on several devices.
        """
        devices = {parameter.device for parameter in parameters.values()}
        if len(devices) > 1:
            raise ValueError(f"the trained parameters are on several devices: {devices}")
        device = devices.pop() if devices else torch.device("cpu")
        self._on_host = device.type == "cpu"
        self._parameters = [parameters[tensor.name] for tensor in layout.tensors]
        self._layout = layout
        pinned = not self._on_host
        self._host = torch.zeros(layout.bytes, dtype=torch.uint8, pin_memory=pinned)
        self._device = self._host if self._on_host else torch.zeros_like(self._host, device=device)
        if not self._on_host:
            flat = torch.zeros_like(self._host, pin_memory=True)
            self._host_gradients = self._views(flat)
        for parameter, view in zip(self._parameters, self._views(self._device), strict=True):
            with torch.no_grad():
                view.copy_(parameter)
                parameter.data = view
        if not self._on_host:
            self._host.copy_(self._device)

    def _views(self, flat: torch.Tensor) -> list[torch.Tensor]:
        views = []
        for tensor, offset, parameter in zip(
            self._layout.tensors, self._layout.offsets, self._parameters, strict=True
        ):
            memory = flat[offset : offset + tensor.elements * tensor.element_bytes]
            views.append(memory.view(parameter.dtype).view(parameter.shape))
        return views

    def parameter_bytes(self, part: Part) -> memoryview:
        """Return the host memory of one server's part."""
        return bytes_of(self._host[part.begin : part.end])

    def load(self) -> None:
        """Copy the pulled parameters to the device; returns when it may compute on them."""
        if not self._on_host:
            self._device.copy_(self._host)

    def store(self) -> None:
        """Copy the gradients from the device to host memory."""
        if self._on_host:
            return
        for parameter, view in zip(self._parameters, self._host_gradients, strict=True):
            if parameter.grad is None:
                view.zero_()
            else:
                view.copy_(parameter.grad, non_blocking=True)
        torch.cuda.synchronize(self._device.device)

    def gradient_bytes(self) -> list[Sequence[memoryview]]:
        """Return, by server, the pieces of memory whose concatenation is the server's part.

        Raises TypeError for a sparse gradient.
        """
        views = {}
        for index, (tensor, parameter) in enumerate(
            zip(self._layout.tensors, self._parameters, strict=True)
        ):
            gradient = parameter.grad if self._on_host else self._host_gradients[index]
            views[tensor.name] = _gradient_bytes(tensor, gradient)
        return [_gather(part, views) for part in self._layout.parts]


def _gradient_bytes(tensor: DenseTensor, gradient: torch.Tensor | None) -> memoryview:
    if gradient is None:
        return memoryview(bytes(tensor.elements * tensor.element_bytes))
    if gradient.layout != torch.strided:
        raise TypeError(
            f"the gradient of {tensor.name} is {gradient.layout}: a table of rows must be a "
            "sparse table of the job, not a module with sparse=True"
        )
    return bytes_of(gradient.detach().contiguous())


def _gather(part: Part, views: Mapping[str, memoryview]) -> Sequence[memoryview]:
    pieces = []
    position = 0
    for segment in part.segments:
        if segment.offset_bytes > position:
            pieces.append(_PADDING[: segment.offset_bytes - position])
        first = segment.first_element * segment.element_bytes
        pieces.append(views[segment.tensor][first : first + segment.bytes])
        position = segment.offset_bytes + segment.bytes
    pieces.append(_PADDING[: part.bytes - position])
    return pieces
