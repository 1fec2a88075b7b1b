"""What a worker carries from one iteration to the next besides the parameters.

Parameters live on the servers; a model's buffers (running statistics of batch norm) and what a
program keeps in `job.state` live in the worker and would die with it. They travel as an opaque
blob with every push, so that a replacement goes on from the same values. Buffers that never
change (a causal mask) stay at home, so most models send nothing.
"""

import io

import torch
from torch import Tensor, nn


class WorkerState:
    """Buffers of one model and the tensors that its program keeps."""

    def __init__(self, model: nn.Module, kept: dict[str, Tensor]) -> None:
        """`kept` belongs to the program and is read at every dump."""
        self._model = model
        self._kept = kept
        self._unchanged = {name: value.clone() for name, value in model.named_buffers()}

    def dump(self) -> bytes:
        """Return the changed buffers and the kept tensors; no bytes when there are none.

        Values are compared until they differ: batch norm writes its buffers without a trace
        in their version counters.
        """
        buffers = dict(self._model.named_buffers())
        for name, first in list(self._unchanged.items()):
            if not torch.equal(first, buffers[name]):
                del self._unchanged[name]
        buffers = {name: value for name, value in buffers.items() if name not in self._unchanged}
        if not buffers and not self._kept:
            return b""
        file = io.BytesIO()
        torch.save({"buffers": buffers, "kept": self._kept}, file)
        return file.getvalue()

    def load(self, blob: bytes) -> None:
        """Restore what `dump` returned; raises KeyError for a buffer the model lacks."""
        if not blob:
            return
        saved = torch.load(io.BytesIO(blob), weights_only=True, map_location="cpu")
        buffers = dict(self._model.named_buffers())
        with torch.no_grad():
            for name, value in saved["buffers"].items():
                buffers[name].copy_(value)
        self._kept.update(saved["kept"])
