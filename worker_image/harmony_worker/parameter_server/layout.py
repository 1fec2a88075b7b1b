"""Which server holds which bytes of a model: one flat buffer, cut into one part per server.

All dense parameters lie one after the other in a flat byte buffer, each aligned to
ALIGNMENT_BYTES (as torch aligns a tensor of its own, so that kernels choose the same code for
the view as for the original). A server's part is one contiguous range of it, so a pull or a
push is one long transfer, with any mixture of dtypes.

Invariant: the result of training does not depend on the number of servers. An elementwise
optimizer may therefore have a tensor cut between servers, at a multiple of CUT_ELEMENTS; any
other gets whole tensors only.
"""

import hashlib
import itertools
import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

ALIGNMENT_BYTES: Final = 64
CUT_ELEMENTS: Final = 1024


def dtype_name(dtype: torch.dtype) -> str:
    """Return the name of a dtype as it goes over the wire, such as `float32`."""
    return str(dtype).removeprefix("torch.")


def dtype_named(name: str) -> torch.dtype:
    """Return the floating-point dtype of that name; raises ValueError for anything else."""
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise ValueError(f"{name!r} is not a floating-point dtype")
    return dtype


@dataclass(frozen=True)
class DenseTensor:
    """One parameter to place: its name, shape, dtype and param group of the optimizer."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    group: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return dtype_named(self.dtype).itemsize


@dataclass(frozen=True)
class Segment:
    """A run of one tensor's elements on one server; the whole tensor where it is not cut."""

    tensor: str
    group: int
    dtype: str
    first_element: int
    shape: tuple[int, ...]
    """The tensor's own shape when whole, else (elements,)."""
    offset_bytes: int
    """From the start of the server's part."""

    @property
    def elements(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def element_bytes(self) -> int:
        """Bytes of one element."""
        return dtype_named(self.dtype).itemsize

    @property
    def bytes(self) -> int:
        """Bytes of the segment, padding excluded."""
        return self.elements * self.element_bytes


@dataclass(frozen=True)
class Part:
    """What one server holds: bytes [begin, end) of the flat buffer."""

    begin: int
    end: int
    segments: tuple[Segment, ...]

    @property
    def bytes(self) -> int:
        """Length of the part, padding included."""
        return self.end - self.begin

    def to_json(self) -> dict[str, Any]:
        """Return the part as plain JSON values."""
        return asdict(self)

    @staticmethod
    def from_json(value: dict[str, Any]) -> "Part":
        """Read `to_json` back; raises ValueError, KeyError or TypeError for anything else."""
        segments = tuple(
            Segment(
                tensor=str(item["tensor"]),
                group=int(item["group"]),
                dtype=str(item["dtype"]),
                first_element=int(item["first_element"]),
                shape=tuple(int(size) for size in item["shape"]),
                offset_bytes=int(item["offset_bytes"]),
            )
            for item in value["segments"]
        )
        part = Part(int(value["begin"]), int(value["end"]), segments)
        for segment in segments:
            inside = 0 <= segment.offset_bytes <= part.bytes - segment.bytes
            aligned = segment.offset_bytes % ALIGNMENT_BYTES == 0
            if not inside or not aligned or segment.group < 0 or min(segment.shape, default=1) < 0:
                raise ValueError(f"segment {segment} does not fit its part")
        return part


@dataclass(frozen=True)
class Layout:
    """Where every tensor lies in the flat buffer, and which range each server holds."""

    tensors: tuple[DenseTensor, ...]
    offsets: tuple[int, ...]
    """Byte offset of each tensor in the flat buffer."""
    parts: tuple[Part, ...]

    @property
    def bytes(self) -> int:
        """Length of the flat buffer, padding included."""
        return self.parts[-1].end


def plan_layout(tensors: Sequence[DenseTensor], servers: int, *, elementwise: bool) -> Layout:
    """Place the tensors in order and cut the buffer into `servers` parts of about equal bytes.

    Cuts are exact to half of CUT_ELEMENTS for elementwise optimizers; otherwise they fall on
    the tensor boundary nearest to the ideal cut. A part may be empty.
    """
    offsets: list[int] = []
    total = 0
    for tensor in tensors:
        offsets.append(total)
        total += _aligned(tensor.elements * tensor.element_bytes)
    cuts = [0]
    for server in range(1, servers):
        ideal = total * server // servers
        cuts.append(max(cuts[-1], _nearest_cut(tensors, offsets, total, ideal, elementwise)))
    cuts.append(total)
    parts = tuple(_part(tensors, offsets, begin, end) for begin, end in itertools.pairwise(cuts))
    return Layout(tuple(tensors), tuple(offsets), parts)


def fingerprint(value: object) -> str:
    """Return a short digest of JSON values: equal exactly when they are."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def _nearest_cut(
    tensors: Sequence[DenseTensor],
    offsets: Sequence[int],
    total: int,
    ideal: int,
    elementwise: bool,
) -> int:
    for tensor, begin, end in zip(tensors, offsets, [*offsets, total][1:], strict=True):
        if not begin <= ideal < end:
            continue
        if not elementwise:
            return begin if ideal - begin <= end - ideal else end
        step = CUT_ELEMENTS * tensor.element_bytes
        cut = begin + round((ideal - begin) / step) * step
        return cut if cut < begin + tensor.elements * tensor.element_bytes else end
    return total


def _part(tensors: Sequence[DenseTensor], offsets: Sequence[int], begin: int, end: int) -> Part:
    segments = []
    for tensor, offset in zip(tensors, offsets, strict=True):
        first = max(begin, offset)
        last = min(end, offset + tensor.elements * tensor.element_bytes)
        if first >= last:
            continue
        elements = (last - first) // tensor.element_bytes
        segments.append(
            Segment(
                tensor=tensor.name,
                group=tensor.group,
                dtype=tensor.dtype,
                first_element=(first - offset) // tensor.element_bytes,
                shape=tensor.shape if elements == tensor.elements else (elements,),
                offset_bytes=first - begin,
            )
        )
    return Part(begin, end, tuple(segments))
