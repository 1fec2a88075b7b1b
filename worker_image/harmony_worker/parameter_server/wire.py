"""The messages between a worker and a parameter server, and moving bytes without copies.

Every message is a header of fixed layout, a small meta block, and a payload that goes straight
from and into the memory of tensors. A receiver checks each length against a limit before it
allocates, so bytes that are not this protocol cost one closed connection and nothing else.
docs/parameter-server.md has the layout of each message.
"""

import enum
import json
import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, Protocol

import torch

MAGIC: Final = b"HPS1"
HEADER: Final = struct.Struct("<4sBBHQqqqqIQ")
RANGE: Final = struct.Struct("<QQ")
"""PULL's meta: offset and length in bytes within the server's part."""
TABLE: Final = struct.Struct("<I")
"""ROWS' meta: index of the table."""
UPDATE_NS: Final = struct.Struct("<Q")
"""Meta of SYNC's answer: nanoseconds of the last update."""
NONE: Final = -1
"""No iteration, in the control words."""

MAX_HELLO_META_BYTES: Final = 64 << 20
MAX_META_BYTES: Final = 1 << 20
MAX_STATE_BYTES: Final = 256 << 20
PIECE_BYTES: Final = 1 << 20
SMALLEST_PIECE_BYTES: Final = 64 << 10


class Kind(enum.IntEnum):
    """What a message asks for, or how it was answered."""

    HELLO = 1
    STATUS = 2
    INITIAL = 3
    RESTORE = 4
    RESUME = 5
    SYNC = 6
    PULL = 7
    ROWS = 8
    PUSH = 9
    FINISHED = 10
    OK = 32
    REFUSED = 33
    ROLLED_BACK = 34
    REPLACED = 35


class Flags(enum.IntFlag):
    """Bits of the header's flags."""

    NONE = 0
    STOP = 1
    """PUSH: this worker was told to stop at an iteration boundary."""


class Header(NamedTuple):
    """The fixed part of every message; both directions use one form."""

    kind: int
    flags: int = 0
    generation: int = 0
    iteration: int = 0
    snapshot_at: int = NONE
    """The next snapshot's, as server 0 named it; a control word."""
    stop_at: int = NONE
    """Before which all workers stop; a control word, in answers only."""
    saved_at: int = NONE
    """The newest snapshot's that the server has written; in requests, that all servers have."""
    meta_bytes: int = 0
    payload_bytes: int = 0


class WireError(Exception):
    """The peer sent bytes that are not a message of this protocol."""


class TransferGate(Protocol):
    """A NET permit, as far as the data plane needs it (see harmony_worker.grant.Grant)."""

    @property
    def chunked(self) -> bool:
        """Whether to move small pieces now; may become False in the middle of a transfer."""

    def before_chunk(self) -> None:
        """Return when the next piece may move."""

    def moved(self) -> None:
        """A piece has moved."""


class OpenGate:
    """The gate of a transfer that needs no permit."""

    chunked: Final = False

    def before_chunk(self) -> None:
        """Let the next piece go at once."""

    def moved(self) -> None:
        """Nobody wants to know."""


OPEN_GATE: Final = OpenGate()


def piece_bytes(gate: TransferGate, total_bytes: int) -> int:
    """Return how much of a connection's transfer to move before asking the gate again.

    A secondary transfer moves at most a sixteenth of the whole at a time, so that it never
    keeps the primary waiting long, but not less than SMALLEST_PIECE_BYTES.
    """
    if not gate.chunked:
        return PIECE_BYTES
    return min(PIECE_BYTES, max(SMALLEST_PIECE_BYTES, total_bytes // 16))


def send_message(
    connection: socket.socket,
    header: Header,
    meta: bytes = b"",
    payload: Iterable[memoryview] = (),
    gate: TransferGate = OPEN_GATE,
) -> int:
    """Send one message and return its bytes; the lengths in `header` are filled in here.

    A payload of a few bytes leaves in the same segment as its header; a longer one goes in
    pieces, each let through by the gate.
    """
    views = deque(view for view in payload if view.nbytes)
    payload_bytes = sum(view.nbytes for view in views)
    header = header._replace(meta_bytes=len(meta), payload_bytes=payload_bytes)
    views.appendleft(memoryview(HEADER.pack(MAGIC, header[0], header[1], 0, *header[2:]) + meta))
    while views:
        gate.before_chunk()
        _send_piece(connection, views, piece_bytes(gate, payload_bytes))
        gate.moved()
    return HEADER.size + len(meta) + payload_bytes


def send_json(connection: socket.socket, header: Header, value: dict[str, Any]) -> None:
    """Send a message whose meta block is a JSON object, without payload."""
    send_message(connection, header, json.dumps(value).encode())


def _send_piece(connection: socket.socket, views: deque[memoryview], limit: int) -> None:
    batch: list[memoryview] = []
    size = 0
    while views and size < limit and len(batch) < 1000:  # the kernel takes 1024 at most
        view = views.popleft()
        if view.nbytes > limit - size:
            views.appendleft(view[limit - size :])
            view = view[: limit - size]
        batch.append(view)
        size += view.nbytes
    sent = connection.sendmsg(batch)
    while sent < size:  # a signal cut it short
        rest = memoryview(b"".join(batch))[sent:]
        connection.sendall(rest)
        sent = size


def receive_header(connection: socket.socket, max_meta_bytes: int = MAX_META_BYTES) -> Header:
    """Return the next header; raises WireError for garbage, ConnectionError at the end."""
    data = bytearray(HEADER.size)
    receive_into(connection, memoryview(data))
    magic, kind, flags, _, *rest = HEADER.unpack(data)
    header = Header(kind, flags, *rest)
    if magic != MAGIC:
        raise WireError(f"a message that begins with {bytes(magic)!r}")
    if header.meta_bytes > max_meta_bytes:
        raise WireError(f"{header.meta_bytes} bytes of meta ({max_meta_bytes} allowed)")
    return header


def receive_bytes(connection: socket.socket, count: int) -> bytes:
    """Return exactly `count` bytes; the caller has checked the count."""
    data = bytearray(count)
    receive_into(connection, memoryview(data))
    return bytes(data)


def receive_json(connection: socket.socket, header: Header) -> dict[str, Any]:
    """Return the meta block of a message as a JSON object; an empty block is an empty one."""
    data = receive_bytes(connection, header.meta_bytes)
    try:
        value = json.loads(data) if data else {}
    except (ValueError, RecursionError) as error:
        raise WireError(f"meta is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise WireError("meta is not a JSON object")
    return value


def receive_tensor(
    connection: socket.socket, shape: tuple[int, ...], dtype: torch.dtype
) -> torch.Tensor:
    """Return a tensor of this form, whose bytes come next; the caller has checked the form."""
    tensor = torch.empty(shape, dtype=dtype)
    receive_into(connection, bytes_of(tensor))
    return tensor


def receive_into(
    connection: socket.socket, view: memoryview, gate: TransferGate = OPEN_GATE
) -> None:
    """Fill `view` from the connection; raises ConnectionError when it ends before."""
    position = 0
    while position < view.nbytes:
        count = connection.recv_into(view[position : position + PIECE_BYTES])
        if count == 0:
            raise ConnectionResetError("the peer closed the connection")
        position += count
        gate.moved()


def discard(connection: socket.socket, count: int) -> None:
    """Read and drop `count` bytes, so that the next message can be read."""
    scratch = memoryview(bytearray(min(count, PIECE_BYTES)))
    while count > 0:
        piece = scratch[: min(count, PIECE_BYTES)]
        receive_into(connection, piece)
        count -= piece.nbytes


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """Return the memory of a contiguous tensor in host memory, as bytes."""
    return tensor.view(-1).view(torch.uint8).numpy().data


def tune(connection: socket.socket) -> None:
    """Set the options of both ends: no delay, and an end to peers whose machine vanished."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 10)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, 5)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, 3)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 30_000)
